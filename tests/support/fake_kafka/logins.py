"""Logins of the scripted Kafka: SASL with PLAIN and SCRAM, and servers of it that lie.

A :class:`Conversation` is the server's side of one login; :class:`FakeLogins` has one made for each
SaslHandshake, again for each renewal, and counts them.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Protocol

from aioproducer.testing.simulation.kafka.calls import Silence
from tests.unit.auth.scram_server import ScramServer

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
SASL_VERSIONS: Final = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
REFUSED, UNSUPPORTED_MECHANISM = 58, 33
USER, PASSWORD = "alice", "a secret of alice"
DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LOGIN: Final[dict[str, Any]] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_username": USER,
    "sasl_password": PASSWORD,
}
"""Options of a producer."""


@dataclass
class Said:
    """A SaslAuthenticate response."""

    data: bytes = b""
    error: int = 0
    message: str | None = None


class Conversation(Protocol):
    """The server's side of one login."""

    def step(self, said: bytes) -> Said:
        """The answer to what the client said."""


@dataclass
class PlainServer:
    """Knows one user."""

    password: str = PASSWORD

    def step(self, said: bytes) -> Said:
        if said == f"\0{USER}\0{self.password}".encode():
            return Said()
        return Said(error=REFUSED, message="Authentication failed: Invalid username or password")


@dataclass
class ScramConversation:
    """SCRAM with one user; ``first`` and ``final`` change what the server says."""

    server: ScramServer
    first: Callable[[bytes], bytes] = lambda said: said
    final: Callable[[bytes], bytes] = lambda said: said
    steps: int = 0

    def step(self, said: bytes) -> Said:
        self.steps += 1
        try:
            if self.steps == 1:
                return Said(self.first(self.server.first(said)))
            return Said(self.final(self.server.final(said)))
        except (AssertionError, ValueError):  # the client was told something else than we said
            return Said(error=REFUSED, message="Authentication failed: Invalid client message")


@dataclass
class Scripted:
    """Says ``answers`` in turn, whatever the client says; the last one again and again."""

    answers: list[Said]

    def step(self, said: bytes) -> Said:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def scram_server(
    mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD, **options: Any
) -> ScramServer:
    """It knows the user, and has 4,096 iterations."""
    return ScramServer(DIGESTS[mechanism], USER, password.encode(), **options)


def wrong_signature(said: bytes) -> bytes:
    """For :attr:`ScramConversation.final`."""
    return b"v=" + b64encode(bytes(32))


def converse(mechanism: str, password: str = PASSWORD) -> Conversation:
    """An honest server's side."""
    if mechanism == "PLAIN":
        return PlainServer(password)
    return ScramConversation(scram_server(mechanism, password))


@dataclass
class Login:
    """One that was begun."""

    connection: int
    mechanism: str
    at: float


@dataclass
class FakeLogins:
    """What a listener asks of whoever connects."""

    mechanisms: tuple[str, ...] = ("SCRAM-SHA-256",)
    make: Callable[[str], Conversation] = converse
    lifetime_ms: int = 0
    """Of a session."""
    lifetimes: deque[int] = field(default_factory=deque)
    """Of the next sessions, before that one."""
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, SaslAuthenticate requests wait for their answer."""
    mute: set[int] = field(default_factory=set)
    """The API keys that are not answered."""
    begun: list[Login] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    """The connections of logins that succeeded."""
    said: list[bytes] = field(default_factory=list)
    """All frames that came from clients."""
    on_begin: Callable[[Login], None] = lambda login: None

    def __post_init__(self) -> None:
        self.open.set()

    def of(self, connection: int) -> int:
        """How many logins of a connection succeeded."""
        return self.ended.count(connection)


class ConnectionLogin:
    """The logins of one connection."""

    def __init__(self, logins: FakeLogins, connection: int) -> None:
        self._logins = logins
        self._connection = connection
        self._conversation: Conversation | None = None
        self._mechanism = ""
        self.done = False

    def takes(self, api: int, frame: bytes) -> bool:
        """Whether the request may come now; else its connection ends."""
        self._logins.said.append(frame)
        return self.done or api in (SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS)

    def asks(self, api: int) -> bool:
        """Whether the request is one of logins."""
        return api in (SASL_HANDSHAKE, SASL_AUTHENTICATE)

    async def respond(self, api: int, body: Any) -> Any:
        """The fields of the response, or :class:`Silence`."""
        if api in self._logins.mute:
            return Silence.UNANSWERED
        if api == SASL_HANDSHAKE:
            return self._handshake(str(body.mechanism))
        await self._logins.open.wait()
        return self._authenticate(body)

    def _handshake(self, mechanism: str) -> Any:
        known = mechanism in self._logins.mechanisms
        login = Login(self._connection, mechanism, monotonic())
        self._logins.begun.append(login)
        self._logins.on_begin(login)
        if known:
            self._mechanism = mechanism
            self._conversation = self._logins.make(mechanism)
        code = 0 if known else UNSUPPORTED_MECHANISM
        return {"error_code": code, "mechanisms": self._logins.mechanisms}

    def _authenticate(self, body: Any) -> Any:
        assert self._conversation is not None
        said = self._conversation.step(body.auth_bytes)
        lifetime = 0
        if not said.error and self._is_over(said):
            lifetimes = self._logins.lifetimes
            lifetime = lifetimes.popleft() if lifetimes else self._logins.lifetime_ms
            self.done = True
            self._logins.ended.append(self._connection)
        return {
            "error_code": said.error,
            "error_message": said.message,
            "auth_bytes": said.data,
            "session_lifetime_ms": lifetime,
        }

    def _is_over(self, said: Said) -> bool:
        return self._mechanism == "PLAIN" or said.data.startswith(b"v=") or not said.data
