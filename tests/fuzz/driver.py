"""The loop that all fuzz targets share: seeds are mutated for a while, and an input that breaks a promise is kept.

A target is a file of this folder that ends with

    if __name__ == "__main__":
        run(target, SEEDS, words=WORDS)

`target(data)` returns where the promise holds, refusals that are meant included, and raises anything else where it does
not. What it returns is what happened, as a small hashable value (the class of the refusal, say, or None): an input that
makes something new happen becomes a seed. `words` are pieces that mutations put in. An input that takes more than
`slow` seconds of CPU is a finding, too.

    python -m tests.fuzz.NAME --seconds 60          until then, or until the first finding
    python -m tests.fuzz.NAME --seconds 60 --seed 7 draws what it drew before
    python -m tests.fuzz.NAME --input FILE          one input again

A finding is made smaller, written to tests/fuzz/found/, and ends the run with exit code 1.
"""

import argparse
import hashlib
import random
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TypeAlias

Target: TypeAlias = Callable[[bytes], object]

FOUND = Path(__file__).parent / "found"
HANG = 20.0
"""Seconds after which an input is no longer waited for."""


class Slow(AssertionError):  # noqa: N818 - what is wrong, in a word
    """An input took more than its share of CPU."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke a promise, and how."""

    data: bytes
    error: Exception


class Mutator:
    """Draws inputs from seeds, the same ones from the same `seed`."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes], seed: int, longest: int) -> None:
        self._random = random.Random(seed)
        self._pool = list(seeds) or [b""]
        self._words = [*words, b"\0", b"\r\n", b"\xff", b" ", b"%", b'"', b"\\"]
        self._longest = longest

    def learn(self, data: bytes) -> None:
        """Take an input for a seed."""
        self._pool.append(data)

    def draw(self) -> bytes:
        """The next input."""
        draw = self._random
        data = bytearray(draw.choice(self._pool))
        for _ in range(draw.choice((1, 1, 2, 3, 5, 8))):
            self._change(data)
        return bytes(data[: self._longest])

    def _change(self, data: bytearray) -> None:
        draw = self._random
        start = draw.randint(0, len(data))
        end = min(len(data), start + draw.choice((1, 1, 2, 4, 16, 64)))
        match draw.randrange(9):
            case 0:
                data[start:start] = draw.choice(self._words)
            case 1:
                data[start:end] = draw.choice(self._words)
            case 2:
                del data[start:end]
            case 3:
                piece = bytes(data[start:end])
                place = draw.randint(0, len(data))
                data[place:place] = piece * draw.choice((1, 1, 2, 3, 40))
            case 4:
                other = draw.choice(self._pool)
                place = draw.randint(0, len(other))
                data[start:end] = other[place : place + draw.choice((1, 4, 16, 64))]
            case 5:
                other = draw.choice(self._pool)
                data[start:] = other[draw.randint(0, len(other)) :]
            case 6 if data:
                data[start - 1] = draw.randrange(256)
            case 7 if data:
                data[start - 1] ^= 1 << draw.randrange(8)
            case _:
                data[start:start] = draw.randbytes(draw.choice((1, 2, 4)))


def check(target: Target, data: bytes, slow: float) -> object:
    """Return the outcome of one input.

    Raises:
        Slow: more than `slow` seconds of CPU.
        Exception: whatever breaks the promise.
    """
    started = time.process_time()
    happened = target(data)
    spent = time.process_time() - started
    if spent > slow:
        # Once more, for the collector or another thread may have been at work.
        started = time.process_time()
        target(data)
        spent = min(spent, time.process_time() - started)
        if spent > slow:
            raise Slow(f"{spent:.3f} s of CPU for {len(data)} bytes")
    return happened


def fuzz(
    target: Target, seeds: Sequence[bytes], *, words: Sequence[bytes] = (), seed: int = 0,
    seconds: float = 60.0, slow: float = 0.5, longest: int = 64 * 1024, runs: int | None = None,
) -> tuple[int, Finding | None]:  # fmt: skip
    """Try inputs until the time is over or one breaks a promise; gives how many were tried.

    Args:
        runs: Stop after this many, however much time is left.
    """
    mutator = Mutator(seeds, words, seed, longest)
    happened: set[object] = set()
    pending = list(seeds)
    end = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < end and (runs is None or tried < runs):
        data = pending.pop() if pending else mutator.draw()
        tried += 1
        try:
            outcome = check(target, data, slow)
        except Exception as error:  # noqa: BLE001 - whatever a target raises is the finding
            return tried, smaller(target, Finding(data, error), slow)
        if outcome not in happened:
            happened.add(outcome)
            mutator.learn(data)
    return tried, None


def smaller(target: Target, finding: Finding, slow: float, *, seconds: float = 10.0) -> Finding:
    """The finding with all bytes left out that it does not need, as far as a few seconds carry."""
    end = time.monotonic() + seconds
    size = max(len(finding.data) // 2, 1)
    while size and time.monotonic() < end:
        start, shrunk = 0, False
        while start < len(finding.data) and time.monotonic() < end:
            data = finding.data[:start] + finding.data[start + size :]
            try:
                check(target, data, slow)
            except Exception as error:  # noqa: BLE001 - as in `fuzz`
                if type(error) is type(finding.error):
                    finding, shrunk = Finding(data, error), True
                    continue
            start += size
        size = size if shrunk and size == 1 else size // 2
    return finding


def run(
    target: Target,
    seeds: Sequence[bytes],
    *,
    words: Sequence[bytes] = (),
    slow: float = 0.5,
    longest: int = 64 * 1024,
    argv: Sequence[str] | None = None,
) -> None:
    """Be the command line of a target; exits with 0 for no finding and 1 for one."""
    file = Path(sys.modules[target.__module__].__file__ or "target")
    parser = argparse.ArgumentParser(prog=f"python -m tests.fuzz.{file.stem}")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--input", type=Path)
    asked = parser.parse_args(argv)
    signal.signal(signal.SIGALRM, _hangs)
    if asked.input is not None:
        sys.stdout.write(f"{_patient(target)(asked.input.read_bytes())!r}\n")
        sys.exit(0)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    tried, finding = fuzz(
        _patient(target), seeds, words=words, seed=seed, seconds=asked.seconds, slow=slow, longest=longest
    )
    result = "no finding" if finding is None else "A FINDING"
    sys.stdout.write(f"{file.stem}: {tried} inputs, seed {seed}: {result}\n")
    if finding is None:
        sys.exit(0)
    FOUND.mkdir(exist_ok=True)
    place = FOUND / f"{file.stem}-{hashlib.sha256(finding.data).hexdigest()[:12]}"
    place.write_bytes(finding.data)
    traceback.print_exception(finding.error, chain=False)
    again = f"python -m tests.fuzz.{file.stem} --input {place}"
    sys.stdout.write(f"\n{finding.data[:200]!r}\nonce more: {again}\n")
    sys.exit(1)


def _patient(target: Target) -> Target:
    def timed(data: bytes) -> object:
        signal.setitimer(signal.ITIMER_REAL, HANG)
        try:
            return target(data)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return timed


def _hangs(number: int, frame: FrameType | None) -> None:
    raise Slow(f"still at work after {HANG} s")
