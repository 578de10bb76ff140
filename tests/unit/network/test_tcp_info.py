"""What the kernel tells of a connection."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import uvloop

from aioproducer.engine.network.transfer import RoundTrip, round_trip, traffic
from aioproducer.foundation.tuning import ROUND_TRIP_FRESH_FOR


@contextmanager
def connected_sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as accepted,
    ):
        yield client, accepted


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_a_connection_of_this_machine_has_a_short_one() -> None:
    with connected_sockets() as (client, accepted):
        client.sendall(b"x")
        assert accepted.recv(1) == b"x"
        found = round_trip(client)
        assert found is not None
        assert 0 < found < 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_bytes_that_pass_are_those_the_other_side_has_taken() -> None:
    with connected_sockets() as (client, accepted):
        before = traffic(client)
        assert before is not None
        assert not before.is_sending
        client.sendall(bytes(1_000))
        assert accepted.recv(1_000, socket.MSG_WAITALL) == bytes(1_000)
        accepted.sendall(bytes(500))
        assert client.recv(500, socket.MSG_WAITALL) == bytes(500)
        found = traffic(client)
        assert found is not None
        assert (found.passed - before.passed, found.is_sending) == (1_500, False)
        assert found.silence < 5
        client.setblocking(False)
        with suppress(BlockingIOError):
            while client.send(bytes(65_536)):  # nobody reads
                pass
        stuck = traffic(client)
        assert stuck is not None
        assert stuck.is_sending


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_closed_connection_has_none(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def after_the_end() -> float | None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            _, writer = await asyncio.open_connection(*server.getsockname())
            ours = writer.get_extra_info("socket")
            writer.close()
            await writer.wait_closed()
            return round_trip(ours)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(after_the_end()) is None


def test_no_socket_or_one_of_another_kind_has_none() -> None:
    for none in (None, object()):
        assert (round_trip(none), traffic(none)) == (None, None)
    with socket.socket(socket.AF_UNIX) as other:
        assert (round_trip(other), traffic(other)) == (None, None)


class CountingSocket:
    """Its round-trip time is the number of questions, in seconds."""

    def __init__(self) -> None:
        self.asked = 0

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        self.asked += 1
        return bytes(68) + (self.asked * 1_000_000).to_bytes(4, sys.byteorder) + bytes(size - 72)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_the_system_is_not_asked_for_each_response() -> None:
    connected = CountingSocket()
    round_trips = RoundTrip(connected)
    for tenth in range(16):
        now = 100 + tenth * ROUND_TRIP_FRESH_FOR / 10
        if now >= round_trips.stale_at:
            round_trips.ask(now)
        assert round_trips.seconds == (1.0 if tenth < 10 else 2.0)
    assert connected.asked == 2
