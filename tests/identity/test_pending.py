import pytest

from gateway.identity.pending import Pending

pytestmark = pytest.mark.anyio


async def test_what_is_pending_settles_when_what_it_waits_for_does() -> None:
    waited: list[str] = []

    async def wait() -> None:
        waited.append("done")

    pending = Pending("not yet", wait, issuer="corp")
    assert (str(pending), pending.issuer, Pending("not yet", wait).issuer) == ("not yet", "corp", "")
    await pending.settled()
    assert waited == ["done"]
