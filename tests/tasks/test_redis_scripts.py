"""The scripts: what they touch. What they decide is shown by test_redis.py."""

import re

from gateway.tasks.redis_client import ENTER
from gateway.tasks.redis_scripts import SCRIPTS

_CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)',\s*(\S+)")


def test_every_key_that_a_script_touches_is_passed_to_it() -> None:
    for script in (ENTER, *SCRIPTS):
        calls = _CALL.findall(script)
        assert len(calls) == len(re.findall(r"redis\.p?call\(", script)) > 0
        assert all(key.startswith("KEYS[") for _, key in calls), calls


def test_no_script_waits_or_asks_the_time() -> None:
    for script in SCRIPTS:
        assert not {"TIME", "BLPOP", "WAIT", "KEYS", "SCAN"} & {command for command, _ in _CALL.findall(script)}
