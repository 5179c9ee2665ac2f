"""JSON-RPC towards agents and clients of other dialects."""

from gateway.a2a import progress
from gateway.a2a.bindings import jsonrpc
from tests.table import for_each


@for_each(
    ("frame", "identity", "result", "error"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}', b"1", b'{"a":1}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', b"1", b"null", None),
        (b'{"jsonrpc":"2.0","id":1}', b"1", None, None),
        (b'{"id":1,"result":[]}', b"1", b"[]", None),
        (b' { "jsonrpc" : "2.0" , "result" : 1 } ', b"", b"1", None),
        (b'{"jsonrpc":"2.0","id":"x","result":1,"error":null}', b'"x"', b"1", None),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001}}', b"null", None, b'{"code":-32001}'),
        (b'{"jsonrpc":"2.0","result":null,"error":{"code":1,"message":"m"}}', b"", None, b'{"code":1,"message":"m"}'),
        (b'{"jsonrpc":"2.0","id":1,"result":1,"more":{}}', b"1", b"1", None),
    ],
)
def test_an_answer_is_opened(frame: bytes, identity: bytes, result: bytes | None, error: bytes | None) -> None:
    answer = jsonrpc.open_answer(frame)
    assert answer is not None
    assert bytes(answer.id) == identity
    assert answer.failed or (bytes(answer.result) or None) == result
    assert (bytes(answer.error) if answer.failed else None) == error


NO_ANSWERS = [
    b"", b"nonsense", b'{"jsonrpc":"2.0","id":1,"result":', b"[]", b"1", b"null", b'{"jsonrpc":"2.0","result":"\xff"}',
    b"{}", b'{"id":1}', b'{"error":{"code":1}}', b'{"jsonrpc":"2.0","error":{"message":"m"}}',
    b'{"jsonrpc":"2.0","error":{"code":"1"}}', b'{"jsonrpc":"2.0","error":[]}', b'{"jsonrpc":"1.0","result":1}',
    b'{"jsonrpc":2,"result":1}', b'{"jsonrpc":"2.0","result":1,"error":{"code":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"result":2}', b'{"jsonrpc":"2.0","id":1,"id":2,"result":1}',
    b'{"jsonrpc":"2.0","id":1,"result":1,"res\\u0075lt":2}', b'{"jsonrpc":"2.0","result":' + b"[" * 5000,
]  # fmt: skip


@for_each("frame", NO_ANSWERS)
def test_what_is_no_answer_is_refused(frame: bytes) -> None:
    assert progress.read_jsonrpc(frame, void=True) is None
