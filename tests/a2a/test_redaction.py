"""Addresses of upstreams in text."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.sanitized_card import REMOVED, Redaction
from tests.support.yardstick import cpu_seconds
from tests.table import for_each

HOSTS = ("agent.svc.cluster.local", "10.0.0.7", "support", "support:8000", "[::1]:9000", "localhost")


@for_each(
    ("text", "cleaned"),
    [
        ("see http://10.0.0.7:8000/docs/x, then go", f"see {REMOVED} then go"),
        ("[docs](https://agent.svc.cluster.local/a)", f"[docs]({REMOVED})"),
        ("Agent.SVC.cluster.LOCAL.", REMOVED),
        ("https://docs.example/?from=http%3A%2F%2Fagent.svc.cluster.local%2Fx", REMOVED),
        ("https://docs.example/?a=https%253A%252F%252F10.0.0.7", REMOVED),
        ("http://u:p@support/x", REMOVED),
        ("grpc at support:8000 and support:50051", f"grpc at {REMOVED} and {REMOVED}"),
        ("http://localhost", REMOVED),
        ("http://[::1]:9000/", REMOVED),
        ("call//support\n//support.", f"{REMOVED}\n{REMOVED}"),
    ],
)
def test_the_whole_word_around_a_host_goes(text: str, cleaned: str) -> None:
    assert Redaction(HOSTS).clean(text) == cleaned


@for_each(
    "text",
    [
        "Customer support agent",
        "support",
        "supporter:1",
        "https://support.example.com/x",
        "//supports",
        "team/support",
        "@support",
    ],
)
def test_a_bare_label_is_also_an_honest_word(text: str) -> None:
    assert Redaction(HOSTS).clean(text) == text


def test_many_texts_are_cleaned_at_once_and_each_as_if_it_were_alone() -> None:
    texts = ["x", "http://10.0.0.7/ is up", "//support", "support", "x", "//u p@support", "10.0.0", ".7"]
    assert Redaction(HOSTS).replacements(texts) == {
        "http://10.0.0.7/ is up": f"{REMOVED} is up",
        "//support": REMOVED,
        "//u p@support": REMOVED,
    }


@for_each("odd", ["x\ufdd0y", "%25ef%25bf%25bf", "//u %ef%b7%90@support %ef%b7%90 //u p@support"])
def test_a_text_that_holds_what_stands_between_texts_costs_them_all(odd: str) -> None:
    assert Redaction(HOSTS).replacements([odd, "10.0.0.7", "x"]) == dict.fromkeys([odd, "10.0.0.7", "x"], REMOVED)


def test_no_hosts_no_change() -> None:
    assert Redaction(()).clean("http://10.0.0.7/") == "http://10.0.0.7/"
    assert Redaction(("", " ")).clean("anything") == "anything"


pieces = st.lists(
    st.sampled_from(
        [*HOSTS, "//", "@", ":", "8000", " ", "http", "%2F", "%40", "%25", "(", "a", ".", "-", "/x", "%", REMOVED]
    ),
    max_size=14,
).map("".join)


@given(pieces)
def test_cleaned_text_names_no_host_and_stays_as_it_is(text: str) -> None:
    redaction = Redaction(HOSTS)
    cleaned = redaction.clean(text)
    assert not redaction.finds(cleaned)
    assert redaction.clean(cleaned) == cleaned
    for host in ("agent.svc.cluster.local", "10.0.0.7", "support:8000", "[::1]:9000"):
        assert host not in cleaned


@given(st.lists(pieces, max_size=5))
def test_no_text_changes_what_becomes_of_another(texts: list[str]) -> None:
    redaction = Redaction(HOSTS)
    replaced = redaction.replacements(texts)
    assert [replaced.get(text, text) for text in texts] == [redaction.clean(text) for text in texts]


@given(pieces, st.lists(st.sampled_from(["word", "\u017fupport", "\uffff", "%ef%bf%bf", "\n"]), max_size=3))
def test_only_words_that_name_a_host_go_unless_all_do(text: str, others: list[str]) -> None:
    redaction = Redaction(HOSTS)
    whole = " ".join([text, *others])
    cleaned = redaction.clean(whole)
    assert not redaction.finds(cleaned)
    assert cleaned == REMOVED or cleaned.endswith("".join(f" {word}" for word in others))


@for_each(
    ("text", "cleaned"),
    [
        ("http://\u017fupport/x or y", f"{REMOVED} or y"),
        ("http://SUPPORT:1 \u00e9%C3%A9 y%", f"{REMOVED} \u00e9%C3%A9 y%"),
        ("//u x@support and more", REMOVED),
        ("10.0.0.7 %EF%BF%BF", REMOVED),
        ("x\uffff10.0.0.7\uffffy", f"x\uffff{REMOVED}\uffffy"),
    ],
)
def test_no_letter_and_no_gap_hides_a_host(text: str, cleaned: str) -> None:
    assert Redaction(HOSTS).clean(text) == cleaned


@for_each(
    "text", ["/" * 250_000, "//a" * 80_000, "@" * 250_000, "//" + "a@" * 100_000, "support:" * 30_000, "%2f" * 80_000]
)
def test_hostile_text_is_searched_without_much_work(text: str) -> None:
    assert cpu_seconds(lambda: Redaction(HOSTS).clean(text)) < 1.0
