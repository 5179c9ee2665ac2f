"""What connections to agents read into."""

from gateway.upstream.read_buffer import ReadBuffer


def test_a_stream_reads_into_the_front_of_what_others_read_into() -> None:
    buffer = ReadBuffer()
    buffer.little[:5] = b"first"
    assert buffer.whole[:5].tobytes() == b"first"


def test_how_much_is_read_where_there_may_be_more_is_known_of_both() -> None:
    buffer = ReadBuffer()
    assert set(buffer.full) == {len(buffer.whole), len(buffer.little)}
    assert len(buffer.little) < len(buffer.whole) <= 64 * 1024
