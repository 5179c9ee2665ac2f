import pytest

from gateway.config.client import KINDS, Client, Mtls


def test_an_entry_says_each_name_once_or_several_times() -> None:
    client = Client.model_validate({"dns": "a.example", "uri": ["spiffe://a/b", "spiffe://a/c"], "tenant": "acme"})
    assert [getattr(client, kind) for kind in KINDS] == [("spiffe://a/b", "spiffe://a/c"), ("a.example",), ()]
    assert (client.tenant, client.agents) == ("acme", None)


def test_without_a_word_a_certificate_is_asked_for_and_stands_alone() -> None:
    mtls = Mtls(ca="clients.pem")
    assert (mtls.require, mtls.with_token, mtls.clients) == (False, False, {})


def test_authorities_have_to_be_named() -> None:
    with pytest.raises(ValueError, match="ca"):
        Mtls.model_validate({"clients": {}})
