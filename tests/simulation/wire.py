"""A connection of a life: what went over it and when, and the firewall on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from aioproducer.testing.simulation.kafka.batch import only_batch
from aioproducer.testing.simulation.kafka.messages import Request, header_of, read_request
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import Connection

PRODUCE: Final = 0
_FETCH: Final = 1
_SETUP: Final = frozenset({17, 18, 36})
"""The requests of a login, which is not begun anew because the process was stopped in it."""
_SIZE_BYTES: Final = 4
_HEADER_BYTES: Final = 8
_CLIENT_ID_AT: Final = 14
"""The place of the client id in a request, after all sizes."""
_MAY_TAKE_LONGER: Final = _SETUP | {PRODUCE, _FETCH}
"""The requests that only this broker can answer, and those of a login behind them."""


def values_of(request: Request) -> Iterator[bytes | None]:
    """The values of the records of a produce request."""
    for topic in request.body.topic_data:
        for partition in topic.partition_data:
            batch = only_batch(partition.records, request.version)
            yield from (record.value for record in batch.records(None))


@dataclass
class _Unanswered:
    """A request whose response has not come; times are those of the process, without stops."""

    api: int
    number: int
    sent_at: float
    ends_at: int | None = None
    """The place of the end of its response in the stream; None: the broker has written none."""


class Wire:
    """Follows ``connection``; ``trace`` gets the bytes of both ways, and a label with the moment.

    ``forgets_after``: seconds after which the network forgets a connection that the client knows to
    be idle. ``written`` gets the size of what is written, and the API of the request that begins.
    """

    def __init__(
        self,
        connection: Connection,
        number: int,
        loop: SimulatedLoop,
        trace: Callable[[bytes], object],
        forgets_after: float,
        written: Callable[[int, int], object],
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._trace = trace
        self._forgets_after = forgets_after
        self._count = written
        self._used_at = loop.time()
        self._turn = -1
        self._in_turn = 0
        self.most_in_turn = 0
        """The most bytes that were written in one iteration of the event loop."""
        self.cut_short = False
        """True if :meth:`values` has left out a request that was written in part."""
        self._written = bytearray()
        """The bytes that the client has written, whether they have left or not."""
        self.client = ""
        """The client_id of the requests."""
        self.longest_wait = 0.0
        """The longest time, in seconds without stops, in which the first request that another
        broker could have answered had no response, while bytes came."""
        self._next_frame = 0
        """The place of the next request in the stream."""
        self._unanswered: deque[_Unanswered] = deque()
        self._answered_at = 0.0
        """The time at which the last response had come."""
        self._put = 0
        """The bytes that the broker has written."""
        connection.requests.on_write = self._write
        connection.responses.on_read = self._read
        connection.requests.on_put = lambda data: self._pass(f"to {number}", data)
        connection.responses.on_put = self._answer
        self._from = f"from {number}"

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        idle = self._loop.time() - self._used_at > self._forgets_after
        begins = self._next_frame == len(self._written)
        self._written += data
        api = self._begin_requests() if begins else -1
        if idle and api not in _SETUP:
            self._connection.stall()
        self._use()
        self._count(len(data), api)
        if self._turn != self._loop.turns:
            self._turn, self._in_turn = self._loop.turns, 0
        self._in_turn += len(data)
        self.most_in_turn = max(self.most_in_turn, self._in_turn)

    def _begin_requests(self) -> int:
        """Note the requests that begin in what was written last; the API of the first one."""
        written, found = self._written, -1
        while self._next_frame < len(written):
            at = self._next_frame + _SIZE_BYTES
            api, _, number = header_of(bytes(written[at : at + _HEADER_BYTES]))
            found = api if found < 0 else found
            self.client = self.client or self._client_of(self._next_frame)
            self._unanswered.append(_Unanswered(api, number, self._now))
            self._next_frame = self._end_of_frame(self._next_frame)
        return found

    def _client_of(self, begin: int) -> str:
        at = begin + _CLIENT_ID_AT
        size = int.from_bytes(self._written[at - 2 : at], "big", signed=True)
        return self._written[at : at + max(size, 0)].decode()

    def _answer(self, data: bytes) -> None:
        """The broker has written a response."""
        self._pass(self._from, data)
        self._put += len(data)
        number = int.from_bytes(data[_SIZE_BYTES : 2 * _SIZE_BYTES], "big", signed=True)
        for each in self._unanswered:
            if each.number == number:
                each.ends_at = self._put

    def _read(self) -> None:
        """The client reads what has come."""
        self._use()
        waiting, passed = self._unanswered, self._connection.responses.passed
        if waiting and waiting[0].api not in _MAY_TAKE_LONGER:
            since = max(waiting[0].sent_at, self._answered_at)
            self.longest_wait = max(self.longest_wait, self._now - since)
        answered = [each for each in waiting if each.ends_at is not None and each.ends_at <= passed]
        if answered:
            self._answered_at = self._now
            while waiting and waiting[0] is not answered[-1]:
                waiting.popleft()
            waiting.popleft()

    @property
    def _now(self) -> float:
        return self._loop.time() - self._loop.stopped

    def _use(self) -> None:
        self._used_at = self._loop.time()

    def _pass(self, way: str, data: bytes) -> None:
        self._trace(f"{way} {self._loop.time()!r} {self._loop.steps} ".encode())
        self._trace(data)

    def values(self) -> Iterator[bytes | None]:
        """The values of all records that the client has written."""
        for frame in self._frames():
            if header_of(frame)[0] == PRODUCE:
                yield from values_of(read_request(frame))

    def _frames(self) -> Iterator[bytes]:
        begin = 0
        while (end := self._end_of_frame(begin)) <= len(self._written):
            yield bytes(self._written[begin + _SIZE_BYTES : end])
            begin = end
        self.cut_short = begin < len(self._written)

    def _end_of_frame(self, begin: int) -> int:
        return (
            begin + _SIZE_BYTES + int.from_bytes(self._written[begin : begin + _SIZE_BYTES], "big")
        )
