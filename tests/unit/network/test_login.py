"""The logins of a connection, alone and against a scripted broker: the first one, and renewals."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from kio.static.primitive import i64Timedelta

from aioproducer.auth.mechanism import Mechanism
from aioproducer.engine.network.connection import Phase
from aioproducer.engine.network.frames import EncodedPayload, decode_response
from aioproducer.engine.network.login import (
    LONGEST_SESSION,
    MAX_ROUNDS,
    RENEWED_AT,
    SOONEST_RENEWAL,
    log_in,
    renewed_after,
)
from aioproducer.engine.network.transport import SocketSettings
from aioproducer.engine.network.versions import CHECKED, UNCHECKED, BrokerIdentity, BrokerVersions
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    IllegalSaslStateError,
    NetworkError,
    ProtocolError,
    RebootstrapRequiredError,
    SaslAuthenticationFailedError,
    TokenEndpointError,
    UnsupportedSaslMechanismError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.secret import Secret
from aioproducer.model import Node
from tests.support.kio_messages import encode, ours, response_module, theirs
from tests.unit.network.scripted_broker import (
    LONG,
    NOTHING,
    Owner,
    Peer,
    broker,
    metadata,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.network.scripted_broker import Script


VERSIONS = BrokerVersions([(17, 0, 1), (36, 0, 2)])
SECRET = "open sesame"
NUMBER = b"\0\0\0\1"
GRANTED = NUMBER + b"\0" + b"\0\0" + b"\0" + b"\1"
"""SaslAuthenticate v2 up to the lifetime: no tags, no error, no message, and empty bytes."""


class Exchange:
    """Says ``says``, one after the other; complete after the last."""

    blocking = False

    def __init__(self, says: Sequence[bytes]) -> None:
        self.says = list(says)
        self.heard: list[bytes] = []
        self.complete = False
        self.sent_secrets: tuple[Secret, ...] = ()
        self.refusal: str | None = None

    def step(self, challenge: bytes) -> bytes:
        self.heard.append(challenge)
        said = self.says.pop(0)
        self.complete = not self.says
        return said


class Blocking(Exchange):
    blocking = True


class OneExchange(Mechanism):
    name = "TEST-1"

    def __init__(self, exchange: Any) -> None:
        self.exchange = exchange
        self.hosts: list[str] = []

    async def begin(self, host: str) -> Any:
        self.hosts.append(host)
        if isinstance(self.exchange, Exception):
            raise self.exchange
        return self.exchange


class Broker:
    """Answers with ``answers``, messages or their bytes; ``asked``: what kio reads in requests."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    async def ask(self, payload: EncodedPayload) -> Any:
        self.asked.append(theirs(payload))
        answer = self.answers.pop(0)
        if isinstance(answer, bytes):
            return decode_response(payload.api, payload.version, answer).response
        return answer

    async def log_in(self, exchange: Any) -> float | None:
        self.mechanism = OneExchange(exchange)
        return await log_in(self.mechanism, "kafka-7", VERSIONS, self.ask)


def offers(*mechanisms: str, code: ErrorCode = ErrorCode.NONE) -> Any:
    parts: Any = response_module(Api.SASL_HANDSHAKE, 1)
    return ours(parts.SaslHandshakeResponse(error_code=code, mechanisms=mechanisms))


def says(
    data: bytes = b"", code: ErrorCode = ErrorCode.NONE, why: str | None = None, seconds: float = 0
) -> Any:
    parts: Any = response_module(Api.SASL_AUTHENTICATE, 2)
    lifetime = i64Timedelta.parse(datetime.timedelta(seconds=seconds))
    return ours(
        parts.SaslAuthenticateResponse(
            error_code=code, error_message=why, auth_bytes=data, session_lifetime=lifetime
        )
    )


async def test_one_message_is_enough_where_the_mechanism_says_so() -> None:
    broker = Broker(offers("TEST-1"), says())
    assert await broker.log_in(Exchange([b"name and password"])) is None
    handshake, authenticate = broker.asked
    assert handshake.mechanism == "TEST-1"
    assert authenticate.auth_bytes == b"name and password"
    assert broker.mechanism.hosts == ["kafka-7"]


@pytest.mark.parametrize("kind", [Exchange, Blocking])
async def test_challenges_and_responses_alternate_until_the_servers_proof(
    kind: type[Exchange],
) -> None:
    exchange = kind([b"first", b"second", b""])
    broker = Broker(offers(), says(b"challenge"), says(b"proof", seconds=90))
    assert await broker.log_in(exchange) == 90.0
    assert exchange.heard == [b"", b"challenge", b"proof"]
    assert [each.auth_bytes for each in broker.asked[1:]] == [b"first", b"second"]


async def test_an_empty_answer_before_the_end_is_a_challenge_too() -> None:
    exchange = Exchange([b"first", b"second", b""])
    broker = Broker(offers(), says(b"challenge"), *[says(b"")] * 3)
    assert await broker.log_in(exchange) is None, "the exchange was asked, and decides"
    assert exchange.heard == [b"", b"challenge", b""]


@pytest.mark.parametrize("milliseconds", [10**12, 2**63 - 1])
async def test_a_session_is_never_longer_than_a_month(milliseconds: int) -> None:
    broker = Broker(offers(), GRANTED + milliseconds.to_bytes(8, "big") + b"\0")
    assert await broker.log_in(Exchange([b"x"])) == LONGEST_SESSION


@pytest.mark.parametrize("milliseconds", [0, -1, -(2**63)])
async def test_a_session_without_a_lifetime_does_not_end(milliseconds: int) -> None:
    broker = Broker(offers(), GRANTED + milliseconds.to_bytes(8, "big", signed=True) + b"\0")
    assert await broker.log_in(Exchange([b"x"])) is None


async def test_the_mechanisms_of_the_listener_are_named() -> None:
    broker = Broker(offers("PLAIN", "GSSAPI", code=ErrorCode.UNSUPPORTED_SASL_MECHANISM))
    with pytest.raises(UnsupportedSaslMechanismError, match=r"TEST-1 .* PLAIN, GSSAPI"):
        await broker.log_in(Exchange([b"x"]))
    assert not broker.mechanism.hosts, "no token is spent on it"


async def test_a_listener_without_logins_is_a_wrong_security_protocol() -> None:
    broker = Broker(offers(code=ErrorCode.ILLEGAL_SASL_STATE))
    told = r"this listener has no login \(SASL\); set security_protocol='PLAINTEXT', or 'SSL'"
    with pytest.raises(IllegalSaslStateError, match=told) as caught:
        await broker.log_in(Exchange([b""]))
    assert "sasl_mechanism" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.SASL_AUTHENTICATION_FAILED, SaslAuthenticationFailedError),
        (ErrorCode.ILLEGAL_SASL_STATE, IllegalSaslStateError),
    ],
)
async def test_a_refusal_is_final_and_says_what_the_broker_said(
    code: ErrorCode, kind: type[AuthenticationError]
) -> None:
    broker = Broker(offers(), says(code=code, why="Invalid\x1b[31m credentials " + "x" * 9999))
    with pytest.raises(kind, match=r"TEST-1 login refused: .* credentials") as caught:
        await broker.log_in(Exchange([SECRET.encode()]))
    assert SECRET not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


async def test_the_reason_that_came_before_a_refusal_is_told() -> None:
    exchange = Exchange([b"token", b"\1", b""])
    exchange.refusal = "status invalid_token"
    failed = says(code=ErrorCode.SASL_AUTHENTICATION_FAILED, why="no")
    with pytest.raises(SaslAuthenticationFailedError, match="no: status invalid_token"):
        await Broker(offers(), says(b"{}"), failed).log_in(exchange)


async def test_a_broker_that_repeats_the_password_is_not_quoted() -> None:
    exchange = Exchange([SECRET.encode()])
    exchange.sent_secrets = (Secret(SECRET),)
    failed = says(code=ErrorCode.SASL_AUTHENTICATION_FAILED, why=f"no user for {SECRET}!")
    with pytest.raises(SaslAuthenticationFailedError, match="no user for ") as caught:
        await Broker(offers(), failed).log_in(exchange)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([NUMBER + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"], "mechanisms can't be null"),
        ([offers()._replace(mechanisms=(None,))], "has impossible values"),
        ([offers(), GRANTED[:-1] + b"\0" + bytes(9)], "auth_bytes can't be null"),
        ([offers(), says()._replace(session_lifetime_ms=None)], "has impossible values"),
    ],
)
async def test_an_answer_that_cannot_be_true_ends_the_connection_alone(
    answers: list[Any], why: str
) -> None:
    with pytest.raises(ProtocolError, match=why):
        await Broker(*answers).log_in(Exchange([b"x", b""]))


async def test_another_error_passes() -> None:
    broker = Broker(offers(), says(code=ErrorCode.UNKNOWN_SERVER_ERROR))
    with pytest.raises(BrokerConnectionError, match="UNKNOWN_SERVER_ERROR"):
        await broker.log_in(Exchange([b"x"]))


async def test_a_broker_that_never_ends_it_is_left() -> None:
    broker = Broker(offers(), *[says(b"more")] * 99)
    with pytest.raises(SaslAuthenticationFailedError, match=f"within {MAX_ROUNDS} steps"):
        await broker.log_in(Exchange([b"x"] * 99))


async def test_a_fault_in_a_step_ends_the_login_and_shows_no_secret() -> None:
    class Faulty(Exchange):
        def step(self, challenge: bytes) -> bytes:
            raise ZeroDivisionError(SECRET)

    broker = Broker(offers(), says())
    with pytest.raises(AuthenticationError, match="ZeroDivisionError") as caught:
        await broker.log_in(Faulty([]))
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


async def test_a_fault_in_a_provider_ends_the_login() -> None:
    with pytest.raises(AuthenticationError, match="KeyError"):
        await Broker(offers()).log_in(KeyError(SECRET))


async def test_a_token_that_cannot_be_had_at_present_is_no_refusal() -> None:
    with pytest.raises(TokenEndpointError) as caught:
        await Broker(offers()).log_in(TokenEndpointError("it is down"))
    assert isinstance(caught.value, NetworkError)


SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 17, 36, 3
SHORTEST_MS = int(SOONEST_RENEWAL * 1000)
PATIENCE = 30.0


class OneStep:
    """One message, and nothing to prove."""

    blocking = False
    sent_secrets = ()
    refusal = None
    complete = False

    def step(self, challenge: bytes) -> bytes:
        self.complete = True
        return b"let me in"


class OneMessage(Mechanism):
    name = "TEST"

    async def begin(self, host: str) -> Any:
        return OneStep()


class LoginPeer(Peer):
    """A broker's side that knows logins."""

    async def expect(self, api: int) -> bytes:
        """The correlation id of the next request, which is of that kind."""
        request = await self.request()
        assert int.from_bytes(request[:2], "big") == api
        return request[4:8]

    async def versions(self, highest: int = 4) -> None:
        parts: Any = response_module(Api.API_VERSIONS, 4)
        ranges = {0: (0, 9), METADATA: (0, 9), 18: (0, highest), SASL_HANDSHAKE: (0, 1), 36: (0, 1)}
        keys = tuple(
            parts.ApiVersion(api_key=api, min_version=first, max_version=last)
            for api, (first, last) in ranges.items()
        )
        self.say(
            await self.number()
            + encode(
                parts.ApiVersionsResponse(
                    error_code=ErrorCode.NONE, api_keys=keys, throttle_time=NOTHING
                )
            )
        )

    async def begins(self) -> None:
        parts: Any = response_module(Api.SASL_HANDSHAKE, 1)
        offer = parts.SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=("TEST",))
        self.say(await self.expect(SASL_HANDSHAKE) + encode(offer))

    async def ends(self, lifetime_ms: int = 0, code: int = 0) -> None:
        self.say(await self.expect(SASL_AUTHENTICATE) + self.verdict(lifetime_ms, code))

    def verdict(self, lifetime_ms: int = 0, code: int = 0) -> bytes:
        """The body of SaslAuthenticate v1: code, no message, no bytes, lifetime."""
        return (
            code.to_bytes(2, "big")
            + b"\xff\xff"
            + bytes(4)
            + lifetime_ms.to_bytes(8, "big", signed=True)
        )

    async def logs_in(self, lifetime_ms: int = 0) -> None:
        await self.versions()
        await self.begins()
        await self.ends(lifetime_ms)


@asynccontextmanager
async def connected(script: Any, **settings: Any) -> AsyncIterator[tuple[Owner, asyncio.Task[Any]]]:
    """A connection to a broker that follows ``script`` with a :class:`LoginPeer`."""

    async def follow(peer: Peer) -> None:
        await script(LoginPeer(peer.reader, peer.writer))

    plain: Script = follow
    async with asyncio.timeout(PATIENCE), broker(plain) as node:
        owner = Owner(node, mechanism=OneMessage(), **settings)
        running = owner.run()
        yield owner, running
        owner.connection.abort(BrokerConnectionError("the test is over"))
        await running


async def test_nobody_may_send_before_the_login_is_over() -> None:
    go_on = asyncio.Event()

    async def script(peer: LoginPeer) -> None:
        await peer.versions()
        await peer.begins()
        await go_on.wait()
        await peer.ends()
        peer.say(await peer.expect(METADATA) + metadata("ours"))

    async with connected(script) as (owner, _):
        while not owner.connection.versions.known:  # noqa: ASYNC110 -- no event tells of it
            await asyncio.sleep(0)
        assert not owner.is_usable
        assert owner.connection.phase is Phase.CONNECTING
        go_on.set()
        await owner.ready.wait()
        owner.ask("first")
        context, _, _ = await owner.answers.get()
        assert context == "first"
        assert not owner.renewed.is_set()


@pytest.mark.parametrize("known", [UNCHECKED, CHECKED])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED])
async def test_a_broker_is_told_which_one_is_meant_when_the_login_is_over(
    known: int, code: int
) -> None:
    """Before that it does not compare (Kafka's ``SaslServerAuthenticator``)."""
    asked: list[bytes] = []

    async def script(peer: LoginPeer) -> None:
        await peer.versions(highest=5)
        await peer.begins()
        await peer.ends()
        request = await peer.request()
        asked.append(request)
        schema = response_schema(Api.API_VERSIONS)
        keys = (schema.ApiVersion(METADATA, 0, 9), schema.ApiVersion(18, 0, 5))
        answer = schema.ApiVersionsResponse(error_code=code, api_keys=keys)
        peer.say(request[4:8] + schema.encode(answer, CHECKED))

    meant = BrokerIdentity("ours", 7)
    async with connected(script, identity=meant, first_version=known) as (owner, running):
        if code:
            assert isinstance(await running, RebootstrapRequiredError)
        else:
            await owner.ready.wait()
    assert [(each[:4], each.endswith(b"\x05ours\0\0\0\x07\0")) for each in asked] == [
        (b"\0\x12\0\x05", True)
    ]


async def test_a_renewal_waits_for_its_time_and_lets_requests_in_flight_end() -> None:
    go_on = asyncio.Event()

    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        first = await peer.expect(METADATA)
        handshake = await peer.expect(SASL_HANDSHAKE)
        peer.say(first + metadata("before the challenge"))
        await go_on.wait()
        parts: Any = response_module(Api.SASL_HANDSHAKE, 1)
        offer = parts.SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=())
        peer.say(handshake + encode(offer))
        await peer.ends()
        peer.say(await peer.expect(METADATA) + metadata("after"))

    async with connected(script) as (owner, _):
        await owner.ready.wait()
        owner.ask("first")
        context, _, _ = await owner.answers.get()
        assert context == "first"
        assert not owner.is_usable, "nothing may come between the steps of a login"
        assert not owner.renewed.is_set()
        go_on.set()
        await owner.renewed.wait()
        assert owner.is_usable
        owner.ask("second")
        assert (await owner.answers.get())[0] == "second"


async def test_an_answer_in_the_wrong_order_ends_the_connection_and_nothing_is_answered() -> None:
    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        await peer.expect(METADATA)
        peer.say(await peer.expect(SASL_HANDSHAKE) + b"\0\0\0\0\0\0")

    async with connected(script) as (owner, running):
        await owner.ready.wait()
        owner.ask("first")
        assert isinstance(await running, ProtocolError)
        contexts = [each.request for each in owner.connection.in_flight.take_all()]
        assert "first" in contexts
        assert owner.answers.empty()


@pytest.mark.parametrize(
    ("step", "api", "most", "renewal"),
    [
        (0, "API_VERSIONS", 65_536, False),
        (1, "SASL_HANDSHAKE", 65_536, False),
        (2, "SASL_AUTHENTICATE", 262_144, False),
        (1, "SASL_HANDSHAKE", 65_536, True),
        (2, "SASL_AUTHENTICATE", 262_144, True),
    ],
)
async def test_a_long_response_about_a_login_is_refused_by_its_length(
    step: int, api: str, most: int, renewal: bool
) -> None:
    """The peer has shown nothing yet. No byte after the length comes, and none is waited for."""

    async def script(peer: LoginPeer) -> None:
        if renewal:
            await peer.logs_in(SHORTEST_MS)
        steps = (peer.versions, peer.begins, peer.ends)
        for each in steps[renewal:step]:
            await each()
        await peer.request()
        peer.writer.write((most + 1).to_bytes(4, "big"))

    async with connected(script) as (owner, running):
        error = await running
        assert isinstance(error, ProtocolError)
        assert str(error).startswith(f"{owner.connection.node}: ")
        assert f"a response of {most + 1} bytes to a request of {api}" in str(error)
        assert f"at most {most} bytes are read" in str(error)
        assert owner.connection.phase.was_ready is renewal


async def test_the_longest_response_about_a_login_is_read() -> None:
    """Bytes after a message are skipped, as everywhere."""

    async def script(peer: LoginPeer) -> None:
        await peer.versions()
        await peer.begins()
        verdict = await peer.expect(SASL_AUTHENTICATE) + peer.verdict()
        peer.say(verdict.ljust(262_144, b"\0"))

    async with connected(script) as (owner, _):
        await owner.ready.wait()


async def test_a_refused_renewal_ends_the_connection() -> None:
    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        await peer.begins()
        await peer.ends(code=58)

    async with connected(script) as (owner, running):
        error = await running
        assert isinstance(error, SaslAuthenticationFailedError)
        assert str(error).startswith("broker 7 (127.0.0.1:")
        assert owner.connection.phase.was_ready
        assert not owner.renewed.is_set()


async def test_a_renewal_without_answer_ends_the_connection_in_time() -> None:
    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        await peer.expect(SASL_HANDSHAKE)

    async with connected(script, request_timeout=0.1) as (_, running):
        error = await running
        assert isinstance(error, BrokerConnectionError)
        assert not isinstance(error, AuthenticationError)
        assert "did not complete the TEST login within 0.1 s (request_timeout_ms)" in str(error)


async def test_a_renewed_login_is_no_use_of_the_connection() -> None:
    """Else no connection would ever be idle."""

    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        await peer.begins()
        await peer.ends()

    async with connected(script) as (owner, _):
        await owner.ready.wait()
        assert owner.connection.exchange is not None
        used = owner.connection.exchange.last_used
        owner.now += 50
        await owner.renewed.wait()
        assert owner.connection.exchange.last_used == used


async def test_a_connection_that_ends_between_renewals_is_not_renewed() -> None:
    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(3_600_000)
        peer.writer.close()

    async with connected(script) as (owner, running):
        assert isinstance(await asyncio.wait_for(running, LONG), BrokerConnectionError)
        assert owner.connection.phase.was_ready


class Rotated(OneMessage):
    """New credentials for each login."""

    async def current(self) -> Mechanism:
        return OneMessage()


async def test_abort_while_it_connects_again_with_new_credentials() -> None:
    """The next connection need not wait until the set-up times out."""
    again = asyncio.Event()

    async def script(peer: LoginPeer) -> None:
        await peer.versions()
        await peer.begins()
        await peer.ends(code=58)

    async with connected(script) as (owner, first):
        await first
        port = owner.connection.node.port
        lookups = 0

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            nonlocal lookups
            lookups += 1
            if lookups == 2:
                again.set()
                await asyncio.get_running_loop().create_future()
            return [("127.0.0.1", port)]

        sockets = SocketSettings(-1, -1, resolve=resolve)
        owner = Owner(Node(7, "kafka", port), mechanism=Rotated(), socket=sockets)
        running = owner.run()
        await again.wait()
        reason = BrokerConnectionError("closed")
        owner.connection.abort(reason)
        await asyncio.wait([running], timeout=LONG / 4)
        assert running.done()
        assert running.result() is reason


async def test_a_connection_that_ends_during_a_renewal_passes_its_barrier() -> None:
    """The barrier is of the one who waits for it; the login still has to hear of the end."""

    async def script(peer: LoginPeer) -> None:
        await peer.logs_in(SHORTEST_MS)
        await peer.expect(SASL_HANDSHAKE)
        await asyncio.sleep(0.05)
        peer.writer.close()

    async with connected(script) as (owner, running):
        await owner.ready.wait()
        tls: Any = object()
        settings = owner.connection._settings
        owner.connection._settings = settings._replace(socket=settings.socket._replace(tls=tls))
        while owner.is_usable:  # noqa: ASYNC110 -- no event tells of it
            await asyncio.sleep(0)
        barrier = owner.connection.barrier()
        assert barrier is not None
        assert isinstance(await asyncio.wait_for(running, LONG), BrokerConnectionError)
        await asyncio.wait([barrier], timeout=LONG)
        assert barrier.done()


@pytest.mark.parametrize("session", [1.0, 60.0, 3_600.0])
async def test_the_time_of_a_renewal_is_drawn_by_lot(session: float) -> None:
    async def script(peer: LoginPeer) -> None:
        await peer.logs_in()

    async with connected(script) as (owner, _):
        times = [renewed_after(session, owner.connection._random) for _ in range(50)]
    assert all(session * RENEWED_AT[0] <= time <= session * RENEWED_AT[1] for time in times)
    assert len(set(times)) == len(times)
