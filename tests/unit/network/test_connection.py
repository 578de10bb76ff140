"""One connection against a scripted broker on loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader
from kio.static.primitive import i16

from aioproducer.engine.network.connection import Phase
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import (
    EncodedPayload,
    InFlightRequest,
    InFlightRequests,
    UsualResponse,
    request_form,
)
from aioproducer.engine.network.request import LazyResponse
from aioproducer.engine.network.transport import SocketSettings
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import BrokerConnectionError, ProducerError, ProtocolError
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.model import BootstrapId, BootstrapServer, Node
from tests.support.kio_messages import encode, milliseconds, request_module, response_module
from tests.unit.network.scripted_broker import (
    API_VERSIONS,
    LONG,
    Owner,
    Peer,
    api_versions,
    broker,
    metadata,
    put,
    request_of,
    resolves_to,
    waiting,
)

API_VERSIONS_V4: Any = request_module(Api.API_VERSIONS, 4)


async def test_the_handshake_says_who_we_are_and_then_requests_may_be_sent() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        peer.say(seen[0][4:8] + API_VERSIONS)

    async with broker(script) as node:
        owner = Owner(node)
        assert not owner.is_usable
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        assert owner.is_usable
        assert owner.connection.phase.was_ready
        assert owner.connection.versions[Api.METADATA] == 9
        owner.connection.abort(BrokerConnectionError("enough"))
        assert str(await running) == "enough"
    header, used = entity_reader(RequestHeader)(seen[0], 0)
    assert (header.request_api_key, header.request_api_version) == (18, 4)
    assert header.client_id == "tester"
    said = API_VERSIONS_V4.ApiVersionsRequest(
        client_software_name="aioproducer", client_software_version="1.2.3"
    )
    assert seen[0][used:] == encode(said)


@pytest.mark.parametrize(("partitions", "in_steps"), [(10, False), (4_000, True)])
async def test_a_fetch_response_with_thousands_of_partitions_is_decoded_in_steps(
    partitions: int, in_steps: bool
) -> None:
    schema = response_schema(Api.FETCH)
    data = tuple(schema.PartitionData(partition_index=number) for number in range(partitions))
    topic = schema.FetchableTopicResponse(topic="orders", partitions=data)
    answer = schema.encode(schema.FetchResponse(responses=(topic,)), 9)

    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + answer)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        owner.send(EncodedPayload(Api.FETCH, 9, (b"",)), "fetch")
        _, response, size = await asyncio.wait_for(owner.answers.get(), LONG)
        assert isinstance(response, LazyResponse) is in_steps
        assert size == 4 + 4 + len(answer)
        owner.connection.abort(BrokerConnectionError("enough"))
        await running


def groups(number: int) -> bytes:
    """A ListGroups response v5, without its correlation id."""
    schema = response_schema(Api.LIST_GROUPS)
    listed = tuple(schema.ListedGroup(group_id=f"group-{each}") for each in range(number))
    return b"\0" + schema.encode(schema.ListGroupsResponse(throttle_time_ms=7, groups=listed), 5)


class Reading:
    """A request that keeps the thread in which its response was read."""

    thread = 0

    def read(self, response: Any) -> int:
        self.thread = threading.get_ident()
        return len(response.groups)


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Callable[[], int]]:
    """Gives the number of turns of the event loop so far."""
    loop, turns, counts = asyncio.get_running_loop(), 0, True

    def turn() -> None:
        nonlocal turns
        turns += 1
        if counts:
            loop.call_soon(turn)

    turn()
    yield lambda: turns
    counts = False


async def asked_for_groups(
    answers: list[bytes],
) -> tuple[list[tuple[Any, Any, int]], list[Reading], ProducerError, list[int]]:
    """What became of a ListGroups request for each of ``answers``, which come as if in one write.

    The responses, the requests, the end of the connection, and the turn of each response.
    """
    turns: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        bodies = [await peer.number() + each for each in answers]
        peer.say(*bodies)

    async with broker(script) as node, counted_turns() as turn:
        owner = Owner(node)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        told = owner.respond

        def respond(*args: Any) -> None:
            turns.append(turn())
            told(*args)

        owner.respond = respond
        requests = [Reading() for _ in answers]
        exchange = owner.connection.exchange
        assert exchange is not None
        for each in requests:
            exchange.send(EncodedPayload(Api.LIST_GROUPS, 5, (b"\x01\x01\0",)), each, 0.0)
        while not running.done() and len(turns) < len(answers):  # noqa: ASYNC110 -- either
            await asyncio.sleep(0)
        owner.connection.abort(BrokerConnectionError("enough"))
        end = await asyncio.wait_for(running, LONG)
    return [owner.answers.get_nowait() for _ in turns], requests, end, turns


@pytest.mark.parametrize(
    ("number", "turns_at_least", "beside"), [(4_500, 4, False), (40_000, 40, True)]
)
async def test_a_large_response_is_read_in_steps_and_later_ones_after_it(
    number: int, turns_at_least: int, beside: bool
) -> None:
    answers = [groups(1), groups(number), groups(2), groups(number), groups(3)]
    found, requests, end, turns = await asked_for_groups(answers)
    assert str(end) == "enough"
    assert [each[0] for each in found] == requests
    assert [each[2] for each in found] == [4 + 4 + len(each) for each in answers]
    small, large = [found[at][1] for at in (0, 2, 4)], [found[at][1] for at in (1, 3)]
    assert [len(each.groups) for each in small] == [1, 2, 3], "the one who asked reads them"
    assert large == [(number, 0.007)] * 2
    assert (requests[1].thread == threading.get_ident()) is not beside
    assert turns[1] - turns[0] >= turns_at_least
    assert turns[3] - turns[2] >= turns_at_least


@pytest.mark.parametrize("cut", [1, 4, 7, 13, 40])
async def test_what_a_transport_gives_although_it_is_paused_waits(cut: int) -> None:
    """It may have read more than it gives at once."""
    said: list[bytes] = []
    waits = {b"\0\0\0\1two", b"\0\0\0\1four", b"\0\0\0\1five"}

    def take(_: InFlightRequest, body: bytes, __: float) -> bool:
        said.append(body)
        return body in waits

    exchange = Exchange(
        1, "c", RunningClock(time.monotonic), Expecting(), 0.0,
        lambda *_: None, take, lambda _: None,
    )  # fmt: skip
    paused: list[bool] = []
    exchange.transport = cast(
        "asyncio.Transport",
        SimpleNamespace(
            pause_reading=lambda: paused.append(True),
            resume_reading=lambda: paused.append(False),
            is_closing=lambda: False,
        ),
    )
    bodies = [b"\0\0\0\1" + each for each in (b"one", b"two", b"three", b"four", b"five", b"six")]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    for start in range(0, len(stream), cut):
        put(exchange, stream[start : start + cut])
    for count in (2, 4, 5):
        assert said == bodies[:count]
        assert exchange.is_reading
        exchange.in_flight.clear()
        exchange.read_on()
    assert said == bodies
    assert exchange.error is None
    assert paused == [True, True, True, False]


async def test_a_large_response_that_is_damaged_ends_the_connection() -> None:
    found, _, end, _ = await asked_for_groups([groups(4_500)[:-9], groups(1)])
    assert found == []
    assert isinstance(end, ProtocolError)
    assert "a ListGroupsResponse (version 5) of" in str(end)


async def test_a_large_response_that_says_something_impossible_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Reading, "read", lambda self, response: response.unknown)
    found, _, end, _ = await asked_for_groups([groups(40_000), groups(1)])
    assert found == []
    assert isinstance(end, ProtocolError)
    assert "has impossible values" in str(end)


async def test_a_connection_that_ends_amid_the_steps_of_a_response_answers_nothing() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + groups(40_000))

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        exchange = owner.connection.exchange
        assert exchange is not None
        exchange.send(EncodedPayload(Api.LIST_GROUPS, 5, (b"\x01\x01\0",)), Reading(), 0.0)
        while not exchange.is_reading:  # noqa: ASYNC110 -- no event tells of it
            await asyncio.sleep(0)
        late = owner.connection.in_flight[0]
        assert owner.connection.timeouts.passes_until(late, 100.0) == 100.625
        owner.connection.abort(BrokerConnectionError("enough"))
        assert str(await asyncio.wait_for(running, LONG)) == "enough"
    assert owner.answers.empty()
    assert len(owner.connection.in_flight) == 1, "the request counts as unanswered"


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
async def test_responses_are_matched_in_order_however_they_are_cut(chunk: int) -> None:
    sizes: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        numbers = [await peer.number() for _ in range(3)]
        bodies = [number + metadata(f"c{index}") for index, number in enumerate(numbers)]
        sizes.extend(len(body) + 4 for body in bodies)
        stream = b"".join(map(peer.frame, bodies))
        for start in range(0, len(stream), chunk):
            peer.writer.write(stream[start : start + chunk])
            await asyncio.sleep(0)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        owner.now = 107.0
        for context in ("one", "two", "three"):
            owner.ask(context)
        assert len(owner.connection.in_flight) == 3
        assert owner.connection.in_flight[0].sent == 107.0
        owner.now = 109.0
        answers = [await asyncio.wait_for(owner.answers.get(), LONG) for _ in range(3)]
        said = [(context, [*each.pieces()][-1].cluster_id) for context, each, _ in answers]
        assert said == [
            ("one", "c0"),
            ("two", "c1"),
            ("three", "c2"),
        ]
        assert [size for _, _, size in answers] == sizes
        assert owner.connection.exchange is not None
        assert owner.connection.exchange.last_used == 109.0
        assert len(owner.connection.in_flight) == 0
        running.cancel()


BEHIND_A_BYTE = b"\0\0\0\x08\xb0" + bytes(7) + b"\0\0\x08\x00" + bytes(0x800) + b"\0\0\0\xa1"
"""Responses: behind their first byte, they look like one response of 0x8b0 bytes."""


class Expecting(InFlightRequests):
    """A request waits for each response."""

    def take(self, correlation_id: int) -> InFlightRequest:
        form = request_form(Api.METADATA, 9, "c")
        return InFlightRequest("request", 1, correlation_id, form, 0.0)

    def awaited(self) -> tuple[Api | None, bool]:
        return Api.METADATA, False


def exchange_into(bodies: list[bytes]) -> Exchange:
    """An exchange without a transport, whose responses are added to ``bodies``."""
    return Exchange(
        1,
        "c",
        RunningClock(time.monotonic),
        Expecting(),
        0.0,
        lambda *_: None,
        lambda _, body, __: bodies.append(body),
        lambda _: None,
    )


@pytest.mark.parametrize(
    ("pieces", "lengths"),
    [
        ([b"\0\0\0\5whole"], [5]),
        ([b"\0\0\0\4four\0\0\0\5"], [4]),
        ([b"\0\0\0\4four\0\0\0\4", b"four", b"\0\0\0\4four"], [4, 4, 4]),
        ([b"\0\0\0\4", b"\0\0\0\4", b"\0\0\0\4four"], [4, 4]),
        ([BEHIND_A_BYTE[:1], BEHIND_A_BYTE[1:] + bytes(161)], [8, 0x800, 161]),
    ],
)
async def test_a_piece_is_a_response_only_where_one_begins(
    pieces: list[bytes], lengths: list[int]
) -> None:
    bodies: list[bytes] = []
    exchange = exchange_into(bodies)
    for piece in pieces:
        put(exchange, piece)
    assert [len(body) for body in bodies] == lengths
    assert exchange.error is None
    assert exchange.pieces == len(pieces)


@pytest.mark.parametrize("size", [16_380, 16_381, 16_385, 65_537, 200_000, 3_000_000])
async def test_large_responses_come_out_whole_however_they_are_read(size: int) -> None:
    random = Random(size)
    sizes = [size, 5, size, 70_000, 4, size]
    bodies = [random.randbytes(each) for each in sizes]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    for most in (1_500, 65_536, 200_003, 10**9):
        said: list[bytes] = []
        exchange = exchange_into(said)
        start = 0
        while start < len(stream):
            place = exchange.get_buffer(-1)
            piece = stream[start : start + min(len(place), random.randint(1, most))]
            start += put(exchange, piece)
        assert said == bodies
        assert {type(body) for body in said} == {bytes}


async def test_a_response_is_read_by_its_request_if_it_is_as_usual() -> None:
    parts: Any = response_module(Api.PRODUCE, 9)
    said = [
        encode(parts.ProduceResponse(responses=(), throttle_time=milliseconds(pause)))
        for pause in (1, 2)
    ]
    heard: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        for each in said:
            peer.say(await peer.number() + b"\0" + each)

    def read_usual(body: bytes) -> UsualResponse | None:
        heard.append(body)
        return ("as usual", 0.5) if len(heard) == 1 else None

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        for name in ("usual", "unusual"):
            asked = request_of(
                request_module(Api.PRODUCE, 9).ProduceRequest(
                    transactional_id=None, acks=i16(1), timeout=milliseconds(1), topic_data=()
                )
            )
            asked.read_usual = read_usual
            owner.send(asked, name)
        (first, usual, _), (second, unusual, _) = [
            await asyncio.wait_for(owner.answers.get(), LONG) for _ in range(2)
        ]
        assert (first, usual, type(usual)) == ("usual", ("as usual", 0.5), tuple)
        assert (second, unusual.throttle_time_ms) == ("unusual", 2)
        assert [body[4:] for body in heard] == [b"\0" + each for each in said]
        assert owner.anomalies == []
        running.cancel()


async def test_a_request_without_answer_is_not_waited_for() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        await peer.request()
        peer.say(await peer.number() + metadata("c"))

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        size = owner.ask("unanswered", answered=False)
        assert size > 20
        owner.ask("answered")
        assert (await asyncio.wait_for(owner.answers.get(), LONG))[0] == "answered"
        assert owner.left == ["unanswered"]
        assert len(owner.connection.in_flight) == 0
        running.cancel()


async def test_a_request_without_answer_is_in_flight_until_it_has_left() -> None:
    reads = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.handshake()
        transport = cast(asyncio.Transport, peer.writer.transport)
        transport.pause_reading()
        await reads.wait()
        transport.resume_reading()
        while await peer.reader.read(65536):
            pass

    async with broker(script) as node:
        owner = Owner(node, socket=SocketSettings(4096, -1))
        running = owner.run()
        await owner.ready.wait()
        sent = stuck = 0
        while not stuck or stuck != len(owner.connection.in_flight):
            for _ in range(1_000):
                owner.ask(f"number {sent}", answered=False)
                sent += 1
            stuck = len(owner.connection.in_flight)
            await asyncio.sleep(0.01)
        assert owner.left == [f"number {each}" for each in range(sent - stuck)]
        assert owner.connection.in_flight[0].sent == owner.now
        reads.set()
        async with asyncio.timeout(LONG):
            while len(owner.connection.in_flight):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert owner.left == [f"number {each}" for each in range(sent)]
        running.cancel()


@pytest.mark.parametrize("answered", [0, 1])
async def test_who_hangs_up_at_the_first_request_may_require_a_login(answered: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        for _ in range(answered):
            peer.say(await peer.number() + metadata("lkc"))
        await peer.number()
        peer.writer.close()

    async with broker(script) as node:
        server = BootstrapServer(BootstrapId("bootstrap-0"), node.host, node.port)
        owner = Owner(server)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        for number in range(answered):
            owner.ask(f"answered {number}")
            await owner.answers.get()
        owner.ask("unanswered")
        reason = str(await asyncio.wait_for(running, LONG))
    hint = (
        " instead of answering the first request. If this port requires a login, set "
        "security_protocol to 'SASL_PLAINTEXT'"
    )
    assert reason == f"{server} closed the connection{'' if answered else hint}"


async def test_a_part_of_a_response_is_known_to_have_come() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        exchange = owner.connection.exchange
        assert exchange is not None
        for size in (100, 1_000_000):
            owner.ask("ask")
            body = exchange.correlation_id.to_bytes(4, "big") + bytes(size)
            whole = len(body).to_bytes(4, "big") + body
            assert not exchange.is_amid_response
            put(exchange, whole[:3])
            assert exchange.is_amid_response
            put(exchange, whole[3:50])
            assert exchange.is_amid_response
            at = 50
            while at < len(whole):
                assert exchange.is_amid_response
                place = exchange.get_buffer(-1)
                at += put(exchange, whole[at : at + len(place)])
            assert not exchange.is_amid_response
        running.cancel()


LARGE = bytes(range(256)) * 4_096
"""A mebibyte, which is written in several turns of the event loop."""


@pytest.mark.parametrize("answered", [True, False])
async def test_a_large_request_is_written_in_several_turns_and_none_overtakes_it(
    answered: bool,
) -> None:
    heard: list[bytes] = []
    all_heard = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.handshake()
        for _ in range(3):
            heard.append(await peer.request())
        all_heard.set()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        transport = WritesNoted.of(owner)
        owner.send(EncodedPayload(Api.PRODUCE, 9, (LARGE,)), "large", answered=answered)
        owner.ask("small", answered=answered)
        owner.send(EncodedPayload(Api.PRODUCE, 9, (LARGE,)), "large too", answered=answered)
        assert len(transport.sizes) == 1
        assert owner.left == []
        await asyncio.wait_for(all_heard.wait(), LONG)
        assert max(transport.sizes) <= 2 * 262_144
        assert len(transport.sizes) >= 8
        assert [len(each) > len(LARGE) for each in heard] == [True, False, True]
        assert [each.endswith(LARGE) for each in heard] == [True, False, True]
        names = ["large", "small", "large too"]
        async with asyncio.timeout(LONG):
            while not answered and owner.left != names:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert waiting(owner) == (names if answered else [])
        running.cancel()


async def test_the_rest_of_a_large_request_ends_with_its_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        transport = WritesNoted.of(owner)
        memory = bytearray(LARGE)
        payload = EncodedPayload(Api.PRODUCE, 9, (memoryview(memory),))
        owner.send(payload, "large", answered=False)
        owner.connection.abort(BrokerConnectionError("enough"))
        await asyncio.wait_for(running, LONG)
        assert len(transport.sizes) == 1
        assert owner.left == []
        del payload
        for _ in range(3):
            await asyncio.sleep(0)
        memory.clear()  # raises BufferError if anything still has a part of it


@pytest.mark.parametrize("size", [1_000, 300_000])
async def test_a_request_without_answer_has_left_when_the_transport_is_empty(size: int) -> None:
    exchange, left = exchange_with(transport := NarrowTransport(280_000))
    exchange.send(EncodedPayload(Api.PRODUCE, 9, (bytes(size),)), "one", 0.0, answered=False)
    await asyncio.sleep(0)
    assert left == (["one"] if size == 1_000 else [])
    transport.drain()
    assert left == ["one"]


@pytest.mark.parametrize("size", [1_000, 300_000])
async def test_a_request_whose_last_part_could_not_be_written_has_not_left(size: int) -> None:
    exchange, left = exchange_with(transport := NarrowTransport(280_000))
    parts = 1 if size == 1_000 else 2
    transport.breaks_at = parts
    exchange.send(EncodedPayload(Api.PRODUCE, 9, (bytes(size),)), "one", 0.0, answered=False)
    await asyncio.sleep(0)
    assert transport.writes == parts
    assert left == []
    assert [each.request for each in exchange.in_flight] == ["one"]


def exchange_with(transport: NarrowTransport) -> tuple[Exchange, list[Any]]:
    """An exchange, and the requests of which it has said that they were written."""
    left: list[Any] = []
    exchange = Exchange(
        1,
        "c",
        RunningClock(time.monotonic),
        InFlightRequests(),
        0.0,
        lambda *_: None,
        lambda *_: None,
        lambda request: left.append(request.request),
    )
    exchange.transport = cast("asyncio.Transport", transport)
    transport.exchange = exchange
    return exchange, left


class NarrowTransport:
    """A transport that buffers what is more than ``room``.

    As in Python 3.12.0 to 3.12.8, ``writelines`` does not look at the limits.
    """

    exchange: Exchange

    def __init__(self, room: int) -> None:
        self.room = room
        self.buffered = 0
        self.writes = 0
        self.breaks_at = 0
        """The number of the write that fails; 0: none does."""
        self.is_paused = False

    def is_closing(self) -> bool:
        return 0 < self.breaks_at <= self.writes

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        self.writes += 1
        self.buffered += sum(map(len, pieces))
        self.room -= (left := min(self.room, self.buffered))
        self.buffered = 0 if self.is_closing() else self.buffered - left

    def set_write_buffer_limits(self, *, high: int) -> None:
        self.is_paused = self.buffered > high

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def drain(self) -> None:
        self.buffered = 0
        if self.is_paused:
            self.is_paused = False
            self.exchange.resume_writing()


class WritesNoted:
    """A transport, and the sizes of what it was given to write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.sizes: list[int] = []

    @classmethod
    def of(cls, owner: Owner) -> WritesNoted:
        """In place of the transport of an open connection."""
        exchange = owner.connection.exchange
        assert exchange is not None
        noted = cls(exchange.transport)
        exchange.transport = cast("asyncio.Transport", noted)
        return noted

    def writelines(self, pieces: Iterable[bytes | memoryview]) -> None:
        pieces = list(pieces)
        self.sizes.append(sum(map(len, pieces)))
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def test_correlation_ids_start_again_before_they_become_negative() -> None:
    numbers: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.handshake()
        for _ in range(2):
            number = await peer.number()
            numbers.append(int.from_bytes(number, "big", signed=True))
            peer.say(number + metadata("c"))

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection.exchange is not None
        owner.connection.exchange.correlation_id = 2**31 - 2
        for _ in range(2):
            owner.ask("x")
            await asyncio.wait_for(owner.answers.get(), LONG)
        assert numbers == [2**31 - 1, 0]
        running.cancel()


async def test_socket_options() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node, socket=SocketSettings(20_000, 30_000))
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection.exchange is not None
        sock = owner.connection.exchange.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert 20_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 80_000
        assert 30_000 <= sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 120_000
        running.cancel()


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system has other names")
async def test_load_balancers_see_an_idle_connection() -> None:
    """Azure's forget it after 240 seconds, AWS's after 350."""

    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection.exchange is not None
        sock = owner.connection.exchange.transport.get_extra_info("socket")
        idle, interval, count = (
            sock.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert (idle, interval, count) == (60, 20, 5)
        assert idle + interval * count < 240, "a peer that is gone is noticed before as well"
        running.cancel()


async def test_minus_one_leaves_the_sizes_of_buffers_to_the_system() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    def sizes(sock: socket.socket) -> list[int]:
        return [
            sock.getsockopt(socket.SOL_SOCKET, name)
            for name in (socket.SO_SNDBUF, socket.SO_RCVBUF)
        ]

    async with broker(script) as node:
        owner = Owner(node, socket=SocketSettings(-1, -1))
        running = owner.run()
        await owner.ready.wait()
        assert owner.connection.exchange is not None
        ours = sizes(owner.connection.exchange.transport.get_extra_info("socket"))
        with socket.create_connection((node.host, node.port)) as plain:
            assert ours == sizes(plain)
        running.cancel()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            b"\0\x23" + bytes.fromhex("01 0012 0000 0002 00000000"), id="librdkafka's mock cluster"
        ),
        pytest.param(b"\0\x23" + bytes(4), id="no versions"),
    ],
)
async def test_a_broker_that_does_not_know_our_api_versions(refusal: bytes) -> None:
    versions: list[int] = []

    async def script(peer: Peer) -> None:
        for body in (refusal, api_versions(0)):
            request = await peer.request()
            versions.append(int.from_bytes(request[2:4], "big"))
            peer.say(request[4:8] + body)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await asyncio.wait_for(owner.ready.wait(), LONG)
        assert versions == [4, 0]
        assert owner.connection.versions[Api.METADATA] == 9
        running.cancel()


async def test_the_first_reason_to_abort_is_the_reason() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        first = BrokerConnectionError("first")
        owner.connection.abort(first)
        assert not owner.is_usable, "from this moment on"
        owner.connection.abort(BrokerConnectionError("second"))
        assert await asyncio.wait_for(running, LONG) is first


async def test_abort_while_connecting() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node, socket=resolves_to(("127.0.0.1", node.port)))
        reason = BrokerConnectionError("moved")
        running = owner.run()
        owner.connection.abort(reason)
        assert await asyncio.wait_for(running, LONG) is reason
        assert not owner.ready.is_set()


async def test_abort_before_it_connects() -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        raise AssertionError

    owner = Owner(Node(1, "kafka", 9092), socket=SocketSettings(-1, -1, resolve=resolve))
    reason = BrokerConnectionError("moved")
    owner.connection.abort(reason)
    assert await asyncio.wait_for(owner.run(), LONG) is reason


async def test_abort_while_an_address_is_silent() -> None:
    """The next connection to the broker need not wait until the set-up times out."""
    asked = asyncio.Event()

    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    owner = Owner(Node(1, "kafka", 9092), socket=SocketSettings(-1, -1, resolve=resolve))
    reason = BrokerConnectionError("moved")
    running = owner.run()
    await asked.wait()
    owner.connection.abort(reason)
    assert await asyncio.wait_for(running, LONG) is reason


async def test_abort_during_the_handshake() -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()

    async with broker(script) as node:
        owner = Owner(node)
        reason = BrokerConnectionError("closed")
        running = owner.run()
        await asyncio.wait_for(asked.wait(), LONG)
        owner.connection.abort(reason)
        assert await asyncio.wait_for(running, LONG) is reason


async def test_a_connection_that_ends_as_its_last_bytes_leave_is_not_aborted_again() -> None:
    """asyncio's transport is closed at once then, and can't be aborted any more."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        owner = Owner(Node(7, *listener.getsockname()))
        running = owner.run()
        sock, _ = await loop.sock_accept(listener)
        with sock:
            asked = await loop.sock_recv(sock, 1_000)
            said = asked[8:12] + API_VERSIONS
            await loop.sock_sendall(sock, len(said).to_bytes(4, "big") + said)
            await asyncio.wait_for(owner.ready.wait(), LONG)
            assert owner.connection.exchange is not None
            transport = owner.connection.exchange.transport
            while not transport.get_write_buffer_size():
                transport.write(bytes(65_536))
            sock.settimeout(0.1)
            with suppress(TimeoutError):  # the event loop does not turn meanwhile
                while sock.recv(2**20):
                    pass
            sock.shutdown(socket.SHUT_WR)
            assert isinstance(await asyncio.wait_for(running, LONG), BrokerConnectionError)


async def test_cancelling_closes_the_socket() -> None:
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.handshake()
        with suppress(OSError):
            await peer.reader.read()
        gone.set()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert owner.connection.phase is Phase.LOST
        await asyncio.wait_for(gone.wait(), LONG)


@pytest.mark.parametrize(
    "loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_sending_on_a_connection_that_just_ended_fails_with_it(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Its transport is closed before its reader has heard: uvloop refuses to write then."""

    async def script(peer: Peer) -> None:
        await peer.handshake()

    async def main() -> None:
        async with broker(script) as node:
            owner = Owner(node)
            running = owner.run()
            await owner.ready.wait()
            owner.ask("before")
            assert owner.connection.exchange is not None
            owner.connection.exchange.transport.abort()
            assert not owner.is_usable
            for _ in range(3):
                owner.ask("after")
                await asyncio.sleep(0)
            assert isinstance(await asyncio.wait_for(running, LONG), BrokerConnectionError)
            assert waiting(owner)[:2] == ["before", "after"]

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
