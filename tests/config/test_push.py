"""What holds for webhooks where nothing is written, and how it is written."""

import pytest

from gateway.config.push import Deliver, Push, WebhookPattern
from tests.config.reading import errors, good

AGENTS = "agents: { a: http://127.0.0.1:1 }\n"


def test_without_a_word_agents_call_and_the_policy_is_on() -> None:
    push = good(f"version: 1\n{AGENTS}").push
    assert push == Push()
    assert (push.mode, push.allow, push.block_private_networks, push.max_per_task, push.sign) == (
        "passthrough", (), True, 3, True,
    )  # fmt: skip
    deliver = Deliver()
    assert (deliver.attempts, deliver.timeout, deliver.keep) == (1000, 10, 86_400)
    assert (deliver.first_pause, deliver.longest_pause, deliver.concurrency) == (1, 300, 16)


def test_patterns_are_read_one_or_several() -> None:
    one = good(f"version: 1\npush: {{ allow: 'https://*.acme.example' }}\n{AGENTS}").push
    assert one.allow == (WebhookPattern("https", "*.acme.example", 443),)
    several = good(f"version: 1\npush: {{ allow: ['https://a', 'https://b/x/*'] }}\n{AGENTS}").push
    assert [str(pattern) for pattern in several.allow] == ["https://a", "https://b/x/*"]
    assert several.model_dump(mode="json")["allow"] == ["https://a", "https://b/x/*"]
    assert Push(allow=several.allow).allow == several.allow


@pytest.mark.parametrize(
    ("written", "path", "fact"),
    [
        ("mode: both", "push.mode", "'both' is none of: relay, passthrough, none"),
        ("allow: [https://a, b]", "push.allow[1]", "'b' is no http or https URL"),
        ("allow: 7", "push.allow", "7 is no list"),
        ("allow: [7]", "push.allow[0]", "7 is no pattern of webhooks"),
        ("max_per_task: 0", "push.max_per_task", "0 is not enough"),
        ("deliver: { timeout: 0s }", "push.deliver.timeout", "'0s' is no time to wait"),
        ("deliver: { concurrency: -1 }", "push.deliver.concurrency", "-1 is no whole number"),
        ("sign: yes please", "push.sign", "'yes please' is neither true nor false"),
    ],
)
def test_what_cannot_be_is_told_at_its_place(written: str, path: str, fact: str) -> None:
    assert errors(f"version: 1\npush: {{ {written} }}\n{AGENTS}") == [(path, fact)]
