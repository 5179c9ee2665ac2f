"""The old place of `Fault.details`, for its importers."""

from typing import Any

from gateway.a2a.fault import Fault


def details(fault: Fault, request_id: str) -> list[dict[str, Any]]:
    """Return the typed details of a fault."""
    return fault.details(request_id)
