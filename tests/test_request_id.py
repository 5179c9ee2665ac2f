"""Request ids are unique and of one form."""

import re

from gateway.request_id import RequestIds


def test_ids_are_sixteen_hex_digits_and_never_twice_the_same() -> None:
    ids = RequestIds()
    taken = [ids.take() for _ in range(2_000)]
    assert len(set(taken)) == len(taken)
    assert all(re.fullmatch("[0-9a-f]{16}", one) for one in taken)


def test_two_gateways_do_not_give_the_same_ids() -> None:
    assert RequestIds().take() != RequestIds().take()
