from tests.loops import both_loops

anyio_backend = both_loops
