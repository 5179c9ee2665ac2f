"""JSON-RPC towards agents and clients of other dialects."""

from gateway.a2a import progress
from tests.table import for_each

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
