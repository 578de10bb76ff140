"""A connection of a life: what went over it and when, and the firewall on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from aioproducer.testing.simulation.kafka.batch import only_batch
from aioproducer.testing.simulation.kafka.messages import Request, header_of, read_request
from aioproducer.testing.simulation.loop import SimulatedLoop
from aioproducer.testing.simulation.network import Connection

PRODUCE: Final = 0
_SETUP: Final = frozenset({17, 18, 36})
"""The requests of a login, which is not begun anew because the process was stopped in it."""
_SIZE_BYTES: Final = 4
_HEADER_BYTES: Final = 8


def values_of(request: Request) -> Iterator[bytes | None]:
    """The values of the records of a produce request."""
    for topic in request.body.topic_data:
        for partition in topic.partition_data:
            batch = only_batch(partition.records, request.version)
            yield from (record.value for record in batch.records(None))


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
        connection.requests.on_write = self._write
        connection.responses.on_read = self._use
        connection.requests.on_put = lambda data: self._pass(f"to {number}", data)
        connection.responses.on_put = lambda data: self._pass(f"from {number}", data)

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        idle = self._loop.time() - self._used_at > self._forgets_after
        head = bytes(data[_SIZE_BYTES : _SIZE_BYTES + _HEADER_BYTES])
        whole = len(head) == _HEADER_BYTES  # else it is the end of a request in several pieces
        api = header_of(head)[0] if whole else -1
        if idle and api not in _SETUP:
            self._connection.stall()
        self._use()
        self._written += data
        self._count(len(data), api)
        if self._turn != self._loop.turns:
            self._turn, self._in_turn = self._loop.turns, 0
        self._in_turn += len(data)
        self.most_in_turn = max(self.most_in_turn, self._in_turn)

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
