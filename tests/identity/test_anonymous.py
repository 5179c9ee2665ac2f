from gateway.identity.anonymous import ANONYMOUS


def test_an_anonymous_caller_has_a_tenant_and_nothing_else() -> None:
    assert (ANONYMOUS.tenant, ANONYMOUS.method, ANONYMOUS.subject, ANONYMOUS.key) == (
        "anonymous",
        "anonymous",
        "",
        None,
    )
    assert not ANONYMOUS.claims
