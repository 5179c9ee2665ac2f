"""By what a request names two agents, where none of the rules that hold asks for all that the others ask for."""

from collections.abc import Iterable, Sequence

from gateway.routing.endpoint import Condition
from gateway.routing.route import Rule


def explain_conflict(contenders: Sequence[Rule]) -> str:
    """The two sources that pick two agents, in words for the caller; no agent is named.

    Args:
        contenders: The rules that hold, as `Endpoint.select` gives them: the first asks for most.
    """
    first, *others = contenders
    rival = max((rule for rule in others if rule.agent != first.agent), key=lambda rule: len(rule.conditions))
    pair = (_sources(first.conditions - rival.conditions), _sources(rival.conditions - first.conditions))
    # The credential first: which rule comes first is chance.
    one, other = sorted(pair, key=lambda words: (words.startswith(_TENANT), words))
    if not one or not other:
        return "the request names two agents that only their paths tell apart, and gRPC has no paths"
    if one == other:
        return f"the request names two agents, both by {one}"
    return f"the request names two agents, one by {one} and one by {other}"


def _sources(conditions: Iterable[Condition]) -> str:
    """Where the conditions are looked for: a caller has one key and one tenant, and may have many claims."""
    kinds = {condition[0] for condition in conditions}
    claims = sorted({f"the claim {str(condition[1])!r}" for condition in conditions if condition[0] == "claim"})
    sources = [_KEY] * ("key" in kinds) + claims + [_TENANT] * ("tenant" in kinds)
    return " and ".join(sources)


_KEY = "its API key"
_TENANT = "its tenant"
