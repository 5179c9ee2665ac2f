"""The upstream side is tested on both loops."""

from tests.loops import both_loops

anyio_backend = both_loops
