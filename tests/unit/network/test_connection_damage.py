"""Brokers whose bytes are wrong, late or missing: the connection ends with a reason."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from kio.static.primitive import i16

from aioproducer.engine.network.connection import (
    Phase,
)
from aioproducer.engine.protocol import Api
from aioproducer.errors import BrokerConnectionError, NetworkError, ProtocolError
from aioproducer.errors.broker import ErrorCode
from tests.support.kio_messages import encode, request_module, response_module
from tests.unit.network.scripted_broker import (
    API_VERSIONS,
    LONG,
    NOTHING,
    SHORT,
    Owner,
    Peer,
    Script,
    broker,
    metadata,
    put,
    request_of,
    waiting,
)


async def end_of(script: Script, **settings: Any) -> tuple[NetworkError, Owner]:
    """Why a connection to such a broker ended, after one request if it became ready."""
    async with broker(script) as node:
        owner = Owner(node, **settings)
        running = owner.run()
        ready = asyncio.get_running_loop().create_task(owner.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            owner.ask("first")
        ready.cancel()
        reason = await asyncio.wait_for(running, LONG)
    assert owner.connection.phase in (Phase.FAILED, Phase.LOST)
    assert not owner.is_usable
    assert isinstance(reason, NetworkError)
    return reason, owner


def after_handshake(reply: Callable[[bytes], bytes], *, close: bool = False) -> Script:
    """Answers the first request with raw bytes made from its correlation id."""

    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.writer.write(reply(await peer.number()))
        if close:
            peer.writer.close()

    return script


def at_once(reply: bytes, *, close: bool = False) -> Script:
    """Answers the handshake with raw bytes."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(reply)
        if close:
            peer.writer.close()

    return script


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("reply", "close", "kind", "said"),
    [
        pytest.param(
            lambda n: framed(b"\0\0\0\x63" + metadata("c")),
            False,
            ProtocolError,
            "correlation id 99, but 2 was next",
            id="wrong correlation id",
        ),
        pytest.param(
            lambda n: framed(n + b"\xff" * 40), False, ProtocolError, "understood", id="garbage"
        ),
        pytest.param(
            lambda n: b"\x7f\xff\xff\xff" + n, False, ProtocolError, "2147483647", id="giant"
        ),
        pytest.param(
            lambda n: b"\xff\xff\xff\xff" + n, False, ProtocolError, "of -1 bytes", id="negative"
        ),
        pytest.param(lambda n: b"\0\0\0\3" + n, False, ProtocolError, "of 3 bytes", id="tiny"),
        pytest.param(
            lambda n: framed(n + metadata("c"))[:-5],
            True,
            BrokerConnectionError,
            r"inside a response \(\d+ bytes",
            id="half a frame",
        ),
        pytest.param(
            lambda n: b"\0\0", True, BrokerConnectionError, "inside a response", id="half a length"
        ),
        pytest.param(
            lambda n: b"", True, BrokerConnectionError, "closed the connection", id="closed"
        ),
    ],
)
async def test_any_doubt_ends_the_connection_and_the_request_is_not_answered(
    reply: Callable[[bytes], bytes], close: bool, kind: type, said: str
) -> None:
    reason, owner = await end_of(after_handshake(reply, close=close))
    assert type(reason) is kind
    with pytest.raises(kind, match=said):
        raise reason
    assert "broker 7 (127.0.0.1:" in str(reason)
    assert waiting(owner) == ["first"]
    assert owner.answers.empty()
    assert owner.connection.phase.was_ready


async def test_bytes_left_over_are_ignored_and_told() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        for rest in (b"\0", b"\0\0", b""):
            peer.say(await peer.number() + metadata("c") + rest)

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        for context in ("a", "b", "c"):
            owner.ask(context)
            name, answer, _ = await owner.answers.get()
            assert name == context
            assert [*answer.pieces()][-1].cluster_id == "c"
        assert owner.anomalies == ["METADATA v9 responses end with unknown bytes"] * 2
        assert owner.is_usable
        owner.connection.abort(BrokerConnectionError("done"))
        await running


async def test_bytes_left_over_behind_what_is_read_at_once_are_told_too() -> None:
    parts: Any = response_module(Api.PRODUCE, 9)
    produced = b"\0" + encode(parts.ProduceResponse(responses=(), throttle_time=NOTHING))

    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + produced + b"\0")

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        payload = request_of(
            request_module(Api.PRODUCE, 9).ProduceRequest(
                transactional_id=None, acks=i16(1), timeout=NOTHING, topic_data=()
            )
        )
        owner.send(payload, "produce")
        name, answer, _ = await owner.answers.get()
        assert (name, type(answer).__name__) == ("produce", "ProduceResponse")
        assert answer.responses == ()
        assert owner.anomalies == ["PRODUCE v9 responses end with unknown bytes"]
        assert owner.is_usable
        running.cancel()


async def test_metadata_that_is_wrong_where_it_is_read_later_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c")[:-3])

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        owner.ask("second")
        _, answer, _ = await owner.answers.get()
        assert owner.is_usable
        with pytest.raises(ProtocolError, match="can't be understood"):
            list(answer.read({"orders"}))
        assert not owner.is_usable
        reason = await asyncio.wait_for(running, LONG)
        assert type(reason) is ProtocolError
        assert "broker 7 (127.0.0.1:" in str(reason)
        assert "can't be understood" in str(reason)
        assert waiting(owner) == ["second"]
        with pytest.raises(ProtocolError):  # nor does it matter that it has ended
            list(answer.read({"orders"}))


async def test_an_answer_that_its_reader_refuses_counts_as_none() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c"))

    def refuse(*_: Any) -> None:
        raise ProtocolError("it can't be true")

    async with broker(script) as node:
        owner = Owner(node)
        owner.respond = refuse
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        reason = await running
        assert type(reason) is ProtocolError
        assert "it can't be true" in str(reason)
        assert waiting(owner) == ["first"]


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([(0, 0, 9), (3, 68, 1)], "METADATA versions 68 to 1"),
        ([(0, 9, 8), (3, 0, 9)], "PRODUCE versions 9 to 8"),
        ([(0, 0, 9), (3, 0, 3)], "METADATA versions 0 to 3, this client 4 to 13"),
        ([(0, 0, 9)], "does not support METADATA"),
        ([], "names no versions"),
    ],
)
async def test_versions_that_leave_nothing_to_ask_end_the_connection(
    ranges: list[tuple[int, int, int]], said: str
) -> None:
    parts: Any = response_module(Api.API_VERSIONS, 4)
    keys = tuple(
        parts.ApiVersion(api_key=api, min_version=low, max_version=high)
        for api, low, high in ranges
    )
    spoken = parts.ApiVersionsResponse(
        error_code=ErrorCode.NONE, api_keys=keys, throttle_time=NOTHING
    )

    async def script(peer: Peer) -> None:
        peer.say(await peer.number() + encode(spoken))

    reason, owner = await end_of(script)
    assert isinstance(reason, NetworkError)
    assert said in str(reason)
    assert not owner.connection.phase.was_ready


@pytest.mark.parametrize("end", ["garbage", "end"])
async def test_nothing_is_sent_any_more_once_there_is_doubt(end: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()

    async with broker(script) as node:
        owner = Owner(node)
        running = owner.run()
        await owner.ready.wait()
        assert owner.is_usable
        assert owner.connection.exchange is not None
        if end == "garbage":
            put(owner.connection.exchange, b"\xff\xff\xff\xff")
        else:
            owner.connection.exchange.eof_received()
        assert not owner.is_usable, "though the connection has not noticed yet"
        assert isinstance(await asyncio.wait_for(running, LONG), NetworkError)


async def test_an_error_of_ours_is_none_of_the_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        peer.say(await peer.number() + metadata("c"))

    def explode(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with broker(script) as node:
        owner = Owner(node)
        owner.respond = explode
        running = owner.run()
        await owner.ready.wait()
        owner.ask("first")
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(running, LONG)


async def test_an_answer_to_nothing_ends_the_connection() -> None:
    async def script(peer: Peer) -> None:
        number = await peer.number()
        peer.say(number + API_VERSIONS, number + metadata("c"))

    async with broker(script) as node:
        reason = await asyncio.wait_for(Owner(node).run(), LONG)
    assert isinstance(reason, ProtocolError)


@pytest.mark.parametrize(
    ("reply", "close", "kind", "said"),
    [
        pytest.param(b"HTTP/1.1 400 Bad\r\n\r\n", True, ProtocolError, "HTTP server", id="HTTP"),
        pytest.param(b"\x15\x03\x03\0\2\2\x32", True, ProtocolError, "speaks TLS", id="TLS"),
        pytest.param(b"", True, BrokerConnectionError, "closed the connection", id="closed"),
        pytest.param(b"\0\0\0\x0a\0\0", True, BrokerConnectionError, "inside", id="half"),
        pytest.param(b"220 mail\r\n", False, ProtocolError, "Is it a Kafka broker", id="SMTP"),
        pytest.param(
            framed(b"\0\0\0\x09" + API_VERSIONS), False, ProtocolError, "id 9, but 1", id="wrong id"
        ),
        pytest.param(
            framed(b"\0\0\0\1" + b"\0\x2a\1" + bytes(5)),
            False,
            ProtocolError,
            "INVALID_REQUEST",
            id="error",
        ),
    ],
)
async def test_what_is_no_kafka_broker_is_told_so(
    reply: bytes, close: bool, kind: type, said: str
) -> None:
    reason, owner = await end_of(at_once(reply, close=close))
    assert type(reason) is kind
    assert said in str(reason)
    assert not owner.connection.phase.was_ready
    assert not owner.ready.is_set()


async def test_silence_after_connecting_ends_after_the_request_timeout() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    reason, owner = await end_of(script, request_timeout=SHORT)
    assert type(reason) is BrokerConnectionError
    assert "did not answer an ApiVersions request" in str(reason)
    assert not owner.connection.phase.was_ready


async def test_a_handshake_that_drips_ends_after_the_request_timeout_too() -> None:
    async def drip(peer: Peer) -> None:
        while True:
            peer.writer.write(b"\0")
            await peer.writer.drain()
            await asyncio.sleep(SHORT / 4)

    async def slow(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(b"\0\0\x10\0")
        await drip(peer)

    reason, _ = await end_of(slow, request_timeout=SHORT)
    assert "did not answer an ApiVersions request" in str(reason)


async def test_a_reset() -> None:
    async def script(peer: Peer) -> None:
        await peer.handshake()
        await peer.request()
        linger = b"\1\0\0\0\0\0\0\0"
        sock = peer.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        peer.writer.transport.abort()

    reason, owner = await end_of(script)
    assert type(reason) is BrokerConnectionError
    assert "broker 7" in str(reason)
    assert waiting(owner) == ["first"]
