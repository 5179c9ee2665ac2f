"""Fields of protobuf messages as bytes, for messages that no class would write."""


def held(number: int, value: bytes) -> bytes:
    """A field that has a length: a message, a text, or bytes that are neither."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def text_field(number: int, text: str) -> bytes:
    """A field that holds a text."""
    return held(number, text.encode())


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*found, number))
