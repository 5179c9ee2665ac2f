"""The calls of one connection: frames of the client's in, calls that begin, go on and end, and frames out.

h2 keeps the rules of frames, streams and windows (RFC 9113). Its checks of headers are left out, for `grpc_request` has
its own, and so is its way of counting streams, which goes through all of them for each that begins.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings

from gateway.a2a.call import Head
from gateway.a2a.headers import Pairs
from gateway.listener.grpc_request import CallRefused, GrpcBounds, GrpcRequest, read_request
from gateway.listener.grpc_wire import WINDOW, GrpcWire
from gateway.listener.http2_allowance import SHORT_LIVED, Allowance
from gateway.listener.http2_frames import LONGEST_FRAME, PREFACE, Frame, FrameRefused, Kind
from gateway.listener.http2_hpack import HeaderReader, HeaderWriter
from gateway.listener.http2_outflow import Outflow
from gateway.listener.introduction import Introduction

_WINDOW = 1024 * 1024
"""Bytes of all calls together that may be on their way to the gateway; what may be kept of each is its own window's."""
_SETTINGS_COST = 20
"""A change of settings goes through all streams."""
_MOST_KNOWN = 8
_LONGEST_KNOWN = 2048
_SWEEP_EVERY = 64
_AT_ONCE = 32
"""Calls that are told at once that their client has left; the others are told in the next turns of the loop."""

_CONFIGURATION = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class Carrier(Protocol):
    """What carries the frames of a session, and answers its calls."""

    def send(self, data: bytes) -> None:
        """Hand bytes to the system."""

    def serve(self, head: Head, wire: GrpcWire) -> None:
        """Begin to answer a call."""

    def refused(self, status: int, words: str) -> str:
        """Have it logged that something came that is no call; gives the id by which it was."""

    def watch(self) -> None:
        """From now on the client owes something: more of a request, or to take what waits for it."""

    def rest(self) -> None:
        """No call is left."""

    def violated(self, error: FrameRefused) -> None:
        """The client has done too much of something."""


class Session:
    """The calls of one connection; the side of it that each of them sees (`grpc_wire.Connection`).

    Args:
        peer: Address of the client.
        met: How the connection began.
        most_headers: Of one call.

    Attributes:
        open: The calls, by the number of their streams.
        reading: Those that wait for more of their request.
        leaving: Whether those that come are refused.
    """

    __slots__ = (
        "_bounds", "_carrier", "_h2", "_known", "_loop", "_met", "_most_headers", "_peer", "_reader", "_swept",
        "_taken", "allowance", "leaving", "open", "outflow", "reading",
    )  # fmt: skip

    def __init__(
        self, carrier: Carrier, bounds: GrpcBounds, peer: str, met: Introduction, *, most_headers: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._carrier = carrier
        self._bounds = bounds
        self._peer = peer
        self._met = met
        self._most_headers = most_headers
        self._h2 = _Protocol(_CONFIGURATION)
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: bounds.streams,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW,
                SettingCodes.MAX_FRAME_SIZE: LONGEST_FRAME,
                SettingCodes.MAX_HEADER_LIST_SIZE: bounds.metadata,
            },
        )
        # A call whose headers are too long for it is refused. Beyond twice that there is no reading on: the connection
        # ends, for what the next headers mean would not be known.
        self._reader = self._h2.decoder = HeaderReader(2 * bounds.metadata)
        writer = self._h2.encoder = HeaderWriter()
        self.allowance = Allowance(bounds.resets, self._loop.time())
        self.outflow = Outflow(self, self._h2, writer, self.allowance)
        self.open: dict[int, GrpcWire] = {}
        self.reading: set[GrpcWire] = set()
        self.leaving = False
        self._known: dict[tuple[tuple[bytes, bytes], ...], GrpcRequest] = {}
        self._taken = 0
        self._swept = 0

    @property
    def highest(self) -> int:
        """Number of the latest call."""
        return self._h2.highest_inbound_stream_id

    # ---- What comes ----------------------------------------------------------------------------------------------

    def greet(self) -> None:
        """Say what a server says first; the client has begun."""
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW - WINDOW)
        self._h2.receive_data(PREFACE)

    def receive(self, frame: Frame, now: float) -> None:
        """Act on a frame.

        Raises:
            ProtocolError: it breaks the rules of the connection; the client's GOAWAY is ready to go out.
            FrameRefused: it is one too many of its kind.
        """
        kind = frame.kind
        if kind == Kind.PRIORITY or kind > Kind.CONTINUATION:
            # Deprecated (RFC 9113 §5.3.2), or unknown (§4.1): ignored.
            self.allowance.idle(now)
            return
        if kind != Kind.HEADERS or frame.stream <= self.highest:
            self._see_use(frame, now)
            if kind in _LATE and 0 < frame.stream <= self.highest and frame.stream not in self.open:
                # They may still come when all is over, as many do; RFC 9113 §5.1.
                return
        for event in self._h2.receive_data(frame.raw):
            act = _ACTIONS.get(type(event))
            if act is not None:
                act(self, event, now)

    def _see_use(self, frame: Frame, now: float) -> None:
        """Count what brings no call forward."""
        kind = frame.kind
        if kind == Kind.SETTINGS:
            self.allowance.idle(now, _SETTINGS_COST)
        elif kind in _ALWAYS_IDLE or frame.stream not in self.open or frame.is_scrap:
            self.allowance.idle(now)

    def _begin(self, event: events.RequestReceived, now: float) -> None:
        stream = event.stream_id
        if self.leaving or len(self.open) >= self._bounds.streams:
            # Nothing was done, so that it may be made again (RFC 9113 §8.7).
            self._h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
            self._sweep()
            if not self.leaving:
                self.allowance.reset(now)
            return
        self.allowance.call()
        wire = self.open[stream] = GrpcWire(self, stream, whole=event.stream_ended is not None, now=now)
        try:
            request = self._request(event.headers)
        except CallRefused as error:
            request_id = self._carrier.refused(error.status, error.words)
            self.outflow.head(stream, error.headers(request_id), end=True)
            return
        if request.timeout is not None:
            wire.ends_after(request.timeout)
        self._carrier.serve(request.head, wire)

    def _request(self, headers: Any) -> GrpcRequest:  # noqa: ANN401 - h2 says less than it gives: pairs of bytes
        """The head of a call; the same one as before for the same headers, with what was worked out from it."""
        key = tuple(headers)
        request = self._known.get(key)
        if request is None:
            met, longest = self._met, self._bounds.metadata
            request = read_request(
                headers, self._peer, met.scheme, longest=longest, most=self._most_headers, certificate=met.certificate
            )
            if request.again and sum([len(name) + len(value) for name, value in key]) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    del self._known[next(iter(self._known))]
                self._known[key] = request
        return request

    @property
    def knows(self) -> bool:
        """Whether a head, and the credential in it, is kept to know the next one by."""
        return bool(self._known)

    def forget(self) -> None:
        """Let go of those."""
        self._known.clear()
        self._reader.forget()

    def _data(self, event: events.DataReceived, now: float) -> None:
        size = event.flow_controlled_length or 0
        # For the whole connection at once: what one call is kept waiting for must not keep the others waiting.
        self._taken += size
        if self._taken >= _WINDOW // 2:
            self._h2.increment_flow_control_window(self._taken)
            self._taken = 0
        wire = self.open.get(event.stream_id)
        if wire is not None:
            wire.feed(event.data or b"", size, now)

    def _whole(self, event: events.StreamEnded, _now: float) -> None:
        wire = self.open.get(event.stream_id)
        if wire is not None and not wire.whole:
            wire.fed()

    def _reset(self, event: events.StreamReset, now: float) -> None:
        wire = self.open.pop(event.stream_id, None)
        if wire is None:
            return
        # Nothing of an answer was worth waiting for, or the client has the gateway reset it by what it sends.
        early = not event.remote_reset or self._is_early(wire, now)
        self.outflow.drop(event.stream_id)
        wire.lost()
        self._closed()
        if early:
            self.allowance.reset(now)

    def _is_early(self, wire: GrpcWire, now: float) -> bool:
        return not wire.opened and now - wire.since < SHORT_LIVED

    def _granted(self, event: events.WindowUpdated, _now: float) -> None:
        if event.stream_id:
            self.outflow.granted(event.stream_id)
        self.outflow.pump()

    def _settings(self, event: events.RemoteSettingsChanged, _now: float) -> None:
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            self.outflow.granted_all()
            self.outflow.pump()

    # ---- What calls ask for (`grpc_wire.Connection`) -------------------------------------------------------------

    def head(self, stream: int, headers: Pairs, *, end: bool = False) -> None:
        """Send headers, in front of everything else."""
        if stream in self.open:
            self.outflow.head(stream, headers, end=end)

    def data(self, stream: int, data: bytes) -> None:
        """Send bytes, or keep them until the client takes them."""
        if stream in self.open:
            self.outflow.data(stream, data)

    def trailers(self, stream: int, headers: Pairs | None) -> None:
        """Send what stands behind everything else."""
        if stream in self.open:
            self.outflow.trailers(stream, headers)

    def flush(self) -> None:
        """Hand what was sent to the system."""
        data = self._h2.data_to_send()
        if data:
            self._carrier.send(data)

    def waiting(self, stream: int) -> int:
        """Bytes that wait for the client to take them."""
        return self.outflow.waiting(stream)

    async def drained(self, stream: int) -> None:
        """Wait until few of them are left."""
        await self.outflow.drained(stream)

    def reset(self, stream: int, code: ErrorCodes) -> None:
        """Break off."""
        if self.open.pop(stream, None) is not None:
            self.outflow.drop(stream)
            self._h2.reset_stream(stream, code)
            self.flush()
            self._closed()

    def reads(self, wire: GrpcWire) -> None:
        """Somebody waits for more of the request."""
        self.reading.add(wire)
        self._carrier.watch()

    def rests(self, wire: GrpcWire) -> None:
        """Nobody does any more."""
        self.reading.discard(wire)

    def grant(self, stream: int, size: int) -> None:
        """Let the client send more of the request."""
        if stream in self.open:
            self._h2.increment_flow_control_window(size, stream)
            self.flush()

    def expired(self, wire: GrpcWire) -> None:
        """The client has given up waiting."""
        now = self._loop.time()
        if now - wire.since < SHORT_LIVED:
            try:
                self.allowance.reset(now)
            except FrameRefused as error:
                self._carrier.violated(error)

    # ---- The end -------------------------------------------------------------------------------------------------

    def ping(self) -> None:
        """Ask whether the client is there."""
        self._h2.ping(b"\0" * 8)
        self.flush()

    def cut(self, stream: int) -> None:
        """Break off with a client that takes nothing."""
        wire = self.open.get(stream)
        if wire is not None:
            self.reset(stream, ErrorCodes.CANCEL)
            wire.lost()

    def cut_all(self) -> None:
        """End every call, as one that broke off."""
        for wire in tuple(self.open.values()):
            wire.fail("UNAVAILABLE", "the gateway is shutting down")
            wire.lost()

    def close(self) -> None:
        """Nobody is there any more."""
        wires = list(self.open.values())
        self.open.clear()
        self._known.clear()
        for wire in wires:
            self.outflow.drop(wire.stream)
        self._lose(wires)

    def _lose(self, wires: list[GrpcWire]) -> None:
        for wire in wires[:_AT_ONCE]:
            wire.lost()
        if len(wires) > _AT_ONCE:
            self._loop.call_soon(self._lose, wires[_AT_ONCE:])

    def watch(self) -> None:
        """Something waits for the client to take it."""
        self._carrier.watch()

    def ended(self, stream: int) -> None:
        """The end of an answer was sent."""
        wire = self.open.pop(stream, None)
        if wire is None:
            return
        if not wire.whole:
            # RFC 9113 §8.1: nobody needs the rest of the request.
            self._h2.reset_stream(stream, ErrorCodes.NO_ERROR)
        self._closed()

    def _closed(self) -> None:
        self._sweep()
        if not self.open:
            self._carrier.rest()

    def _sweep(self) -> None:
        self._swept += 1
        if self._swept >= _SWEEP_EVERY:
            self._swept = 0
            self._h2.sweep()


_LATE = frozenset({Kind.WINDOW_UPDATE, Kind.RST_STREAM})
_ALWAYS_IDLE = frozenset({Kind.PING, Kind.WINDOW_UPDATE})
_ACTIONS: dict[type, Callable[[Session, Any, float], None]] = {
    events.RequestReceived: Session._begin,  # noqa: SLF001 - its own
    events.DataReceived: Session._data,  # noqa: SLF001
    events.StreamEnded: Session._whole,  # noqa: SLF001
    events.StreamReset: Session._reset,  # noqa: SLF001
    events.WindowUpdated: Session._granted,  # noqa: SLF001
    events.RemoteSettingsChanged: Session._settings,  # noqa: SLF001
}


class _Protocol(H2Connection):
    """h2's, without its count of streams, for which it goes through all of them each time."""

    # It remembers how each of the latest ended; there may be many thousand connections.
    MAX_CLOSED_STREAMS = 64

    @property
    def open_inbound_streams(self) -> int:
        """None, for h2; `Session` counts them."""
        return 0

    def sweep(self) -> None:
        """Let go of the streams that are closed."""
        _ = super().open_inbound_streams
