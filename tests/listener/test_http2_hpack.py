"""Header blocks: read as the library reads them, written so that it reads them."""

import pytest
from hpack import Decoder, Encoder, HeaderTuple
from hpack.exceptions import OversizedHeaderListError
from hypothesis import given
from hypothesis import strategies as st

from gateway.listener.http2_hpack import HeaderReader, HeaderWriter

Pairs = list[tuple[bytes, bytes]]
NAMES = st.sampled_from([b":path", b"content-type", b"x-a", b"x-b", b"authorization"])
# Few, so that they come again, and some that are half a table long.
VALUES = st.sampled_from([b"", b"1", b"2", b"x" * 2000, b"y" * 1990, b"z" * 5000])


def read(headers: object) -> Pairs:
    return [(bytes(name), bytes(value)) for name, value in headers]  # type: ignore[attr-defined]


@given(st.lists(st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=4), max_size=30))
def test_what_is_known_means_what_it_meant(blocks: list[list[tuple[bytes, bytes, bool]]]) -> None:
    encoder, reader, plain = Encoder(), HeaderReader(1 << 20), Decoder(1 << 20)
    for headers in blocks:
        block = encoder.encode([HeaderTuple(name, value) for name, value, _ in headers])
        assert read(reader.decode(block, raw=True)) == read(plain.decode(block, raw=True))


def test_the_same_bytes_are_read_once() -> None:
    encoder, reader = Encoder(), HeaderReader(1000)
    headers = [(b"x-a", b"1"), (b"x-b", b"2")]
    first, again = encoder.encode(headers), encoder.encode(headers)
    reader.decode(first)
    known = reader.decode(again, raw=True)
    assert reader.decode(again, raw=True) is known
    reader.forget()
    assert reader.decode(again, raw=True) is not known


def test_the_same_bytes_mean_something_else_after_an_addition() -> None:
    encoder, reader = Encoder(), HeaderReader(1000)
    reader.decode(encoder.encode([(b"x-a", b"1")]))
    pointing = encoder.encode([(b"x-a", b"1")])
    assert read(reader.decode(pointing, raw=True)) == [(b"x-a", b"1")]
    reader.decode(encoder.encode([(b"x-b", b"2")]))
    assert read(reader.decode(pointing, raw=True)) == [(b"x-b", b"2")]


def test_what_pushes_all_else_out_is_an_addition_too() -> None:
    encoder, reader = Encoder(), HeaderReader(1 << 20)
    reader.decode(encoder.encode([(b"x-a", b"1")]))
    pointing = encoder.encode([(b"x-a", b"1")])
    reader.decode(pointing)
    # Two at once, each of which takes the whole table: one stands in it before and after.
    reader.decode(encoder.encode([(b"x-b", b"2" * 4000), (b"x-c", b"3" * 4000)]))
    assert read(reader.decode(pointing, raw=True)) == [(b"x-c", b"3" * 4000)]


def test_few_blocks_are_kept_and_no_long_ones() -> None:
    reader = HeaderReader(1 << 20)
    never_indexed = b"\x10\x01a"
    for number in range(100):
        reader.decode(never_indexed + b"\x03%03d" % number)
    assert len(reader._known) == 8
    reader.forget()
    reader.decode(never_indexed + b"\x7f\xf1\x0f" + b"x" * 2160)
    assert reader._known == {}


def test_a_block_that_unfolds_into_too_much_is_refused() -> None:
    encoder, reader = Encoder(), HeaderReader(64 * 1024)
    reader.decode(encoder.encode([(b"x-a", b"x" * 3000)]))
    with pytest.raises(OversizedHeaderListError):
        reader.decode(encoder.encode([(b"x-a", b"x" * 3000)]) * 100)


@given(st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=4), max_size=10))
def test_what_is_written_is_read_by_others(blocks: list[Pairs]) -> None:
    writer, decoder = HeaderWriter(), Decoder(1 << 20)
    for headers in blocks:
        writer.write(headers)
        assert read(decoder.decode(writer.encode(()), raw=True)) == headers
        assert decoder.header_table.dynamic_entries == type(decoder.header_table.dynamic_entries)()


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 254, 255, 16_510, 16_511, 100_000])
def test_values_of_any_length_are_written(size: int) -> None:
    writer, decoder = HeaderWriter(), Decoder(1 << 20)
    headers = [(b":status", b"200"), (b":status", b"299"), (b"x" * (size or 1), b"y" * size)]
    writer.write(headers)
    assert read(decoder.decode(writer.encode(()), raw=True)) == headers


def test_a_reader_that_grants_no_table_is_told_that_none_is_used() -> None:
    writer, decoder = HeaderWriter(), Decoder()
    decoder.max_allowed_table_size = 0
    for _ in range(2):
        writer.write([(b"x-a", b"1")])
        assert read(decoder.decode(writer.encode(()), raw=True)) == [(b"x-a", b"1")]


@pytest.mark.parametrize(
    "pair", [(b"a", b"b\r\nc: d"), (b"a", b"b\n"), (b"a", b"b\0"), (b"a\n", b"b"), (b"A", b"b"), (b"", b"b")]
)
def test_no_header_of_an_answer_makes_a_client_close_the_connection(pair: tuple[bytes, bytes]) -> None:
    writer = HeaderWriter()
    for _ in range(2):
        with pytest.raises(ValueError, match="line end"):
            writer.write([pair])
