"""The typed details of a fault (AIP-193): what every binding tells programs of it, beside the words for people."""

from gateway.a2a.fault import A2A_DOMAIN, BAD_REQUEST, ERROR_INFO, GATEWAY_DOMAIN, BadParams, Fault, TaskNotFound


def details(fault: Fault, request_id: str) -> list[dict[str, object]]:
    """The typed details of a fault: the `ErrorInfo` of the protocol first, from which SDKs pick the exception."""
    entries: list[dict[str, object]] = []
    if fault.a2a_reason is not None:
        entries.append(_info(fault.a2a_reason, A2A_DOMAIN, request_id))
    if not isinstance(fault, TaskNotFound):
        # A foreign task and a missing one look alike to the byte, so that answer is the protocol's alone.
        entries.append(_info((fault.shown or fault.reason).upper(), GATEWAY_DOMAIN, request_id))
    if isinstance(fault, BadParams) and fault.field:
        violation = {"field": fault.field, "description": fault.message}
        entries.append({"@type": BAD_REQUEST, "fieldViolations": [violation]})
    return entries


def _info(reason: str, domain: str, request_id: str) -> dict[str, object]:
    return {
        "@type": ERROR_INFO,
        "reason": reason,
        "domain": domain,
        "metadata": {"requestId": request_id},
    }
