"""PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512: the logins with a user name and a password.

:func:`password_login` reads their options. PLAIN sends the password itself, in one message; in
SCRAM both sides prove that they know it, and the server's messages are read without trust. User
names and passwords are used as they are: Kafka's brokers and tools store them without SASLprep.

No function here raises while it holds a revealed secret: a traceback keeps the variables of its
frames, and some tools print them.

Source: RFC 4616; RFC 5802 and RFC 7677; Kafka's ``PlainSaslClient``, ``ScramSaslClient``,
``ScramFormatter`` and ``ScramMessages``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Final

from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.mechanism import Login, Mechanism, Options
from aioproducer.errors import ConfigError, IllegalSaslStateError, SaslAuthenticationFailedError
from aioproducer.foundation.secret import MASK, Secret

__all__ = [
    "MAX_ITERATIONS",
    "Plain",
    "PlainLogin",
    "Scram",
    "ScramExchange",
    "ScramLogin",
    "password_login",
    "password_login_with",
]


@dataclass(frozen=True, slots=True)
class PlainLogin(Login):
    """``PLAIN``: user name and password go over the connection."""

    username: str
    password: Secret

    def make(self, options: Options, clock: Callable[[], float]) -> Plain:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""
        return Plain(self.username, self.password)


@dataclass(frozen=True, slots=True)
class ScramLogin(Login):
    """``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: Secret
    token_auth: bool = False
    """The user name is the id of a delegation token, the password its HMAC (KIP-48)."""

    def make(self, options: Options, clock: Callable[[], float]) -> Scram:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""
        return Scram(self.mechanism, self.username, self.password, tokenauth=self.token_auth)


def password_login(mechanism: str, sources: LoginSources) -> Login:
    """The login by the options.

    Raises:
        ConfigError: user name or password is missing.
    """
    username = sources.text("sasl_username", "username")
    password = sources.secret("sasl_password", "password")
    if username is None or password is None:
        name = "username" if username is None else "password"
        raise ConfigError(
            f"sasl_mechanism={mechanism!r} needs sasl_{name}, or {name} in sasl_jaas_config, or"
            " sasl_credentials_provider"
        )
    return password_login_with(mechanism, username, password, sources.flag("tokenauth"))


def password_login_with(
    mechanism: str, username: str, password: Secret, token_auth: bool
) -> PlainLogin | ScramLogin:
    """The login with these credentials."""
    if mechanism == "PLAIN":
        return PlainLogin(username, password)
    return ScramLogin(mechanism, username, password, token_auth)


def _sendable(what: str, text: Secret) -> Secret:
    """``text`` as it is, if it can be sent.

    Raises:
        ConfigError: it is empty, has a NUL, or can't be written as UTF-8.
    """
    if problem := _problem(text.reveal()):
        raise ConfigError(f"{what} {problem}; it is not shown")
    return text


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains a NUL character (U+0000), which no server accepts"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a surrogate, which UTF-8 can't encode"
    return None


class Plain(Mechanism):
    """PLAIN with one user. Anyone who reads the connection reads the password: use it with TLS.

    Raises:
        ConfigError: the user name or the password is empty, has a NUL, or is not UTF-8.
    """

    __slots__ = ("_password", "_username", "name")

    def __init__(self, username: str, password: Secret) -> None:
        self.name = "PLAIN"
        self._username = _sendable("PLAIN: the user name", Secret(username))
        self._password = _sendable("PLAIN: the password", password)

    async def begin(self, host: str) -> PlainExchange:
        """Start a login; the host plays no part in it."""
        return PlainExchange(self._username, self._password)


class PlainExchange:
    """One message to the server. The server's proof is that of TLS, there is none in PLAIN."""

    blocking: ClassVar[bool] = False
    refusal: ClassVar[None] = None
    __slots__ = ("_password", "_username", "complete", "sent_secrets")

    def __init__(self, username: Secret, password: Secret) -> None:
        self._username = username
        self._password = password
        self.sent_secrets = (password,)
        self.complete = False

    def step(self, challenge: bytes) -> bytes:
        """``NUL user NUL password``: nobody else is asked to be acted for.

        Raises:
            IllegalSaslStateError: the server asks for something, which PLAIN does not know.
        """
        if self.complete or challenge:
            raise IllegalSaslStateError(
                "PLAIN: the server sent a challenge, which PLAIN does not have; is it a Kafka "
                "broker with PLAIN on this listener?"
            )
        self.complete = True
        return f"\0{self._username.reveal()}\0{self._password.reveal()}".encode()


_MAX_MESSAGE: Final = 4096
"""Bytes; Kafka's own messages have about 100."""
_PRINTABLE: Final = r"[!-+\--~]+"
_BASE64: Final = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^\0,]+)*"
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,20}}){_EXTENSIONS}"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")
_SERVER_ERROR: Final = re.compile(rf"e=(?P<reason>[^\0,]+){_EXTENSIONS}")
_NAME_OF_AN_ERROR: Final = re.compile(r"[A-Za-z][A-Za-z0-9 ._-]{0,79}")


class _UnreadableError(Exception):
    """A server's message is none of SCRAM. ``str()`` says why, without a piece of it."""


@dataclass(frozen=True, slots=True)
class _ServerFirst:
    """The values from which the key is derived."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class _ServerError:
    """The server's reason to refuse the login."""

    reason: str


def _sasl_name(name: str) -> str:
    """A name as it stands in a message, ',' and '=' escaped."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _server_first(message: bytes) -> _ServerFirst | _ServerError:
    """The server's nonce, salt and iteration count.

    Raises:
        _UnreadableError: it is not of the form.
    """
    text = _text(message)
    if error := _error(text):
        return error
    if text.startswith("m="):
        raise _UnreadableError("it requires an extension that this client does not support")
    match = _SERVER_FIRST.fullmatch(text)
    if match is None or not match["salt"]:
        raise _UnreadableError("it does not have the form r=…,s=…,i=…")
    return _ServerFirst(text, match["nonce"], b64decode(match["salt"]), int(match["iterations"]))


def _server_final(message: bytes) -> bytes | _ServerError:
    """The server's signature.

    Raises:
        _UnreadableError: it is not of the form.
    """
    text = _text(message)
    if error := _error(text):
        return error
    match = _SERVER_FINAL.fullmatch(text)
    if match is None:
        raise _UnreadableError("it does not have the form v=… or e=…")
    return b64decode(match["signature"])


def _text(message: bytes) -> str:
    if not message:
        raise _UnreadableError("it is empty")
    if len(message) > _MAX_MESSAGE:
        raise _UnreadableError(f"it has {len(message)} bytes, more than {_MAX_MESSAGE}")
    text = message.decode("utf-8", "replace")
    if "\ufffd" in text:
        raise _UnreadableError("it is not UTF-8")
    return text


def _error(text: str) -> _ServerError | None:
    match = _SERVER_ERROR.fullmatch(text)
    if match is None:
        return None
    known = _NAME_OF_AN_ERROR.fullmatch(match["reason"])
    return _ServerError(known[0] if known else "a reason that can't be shown")


_MIN_ITERATIONS: Final = 4096
"""As RFC 7677 and Kafka require: fewer would make the proof worth a dictionary attack."""
MAX_ITERATIONS: Final = 1_000_000
"""A server that asks for more wants to keep this machine busy; these take it about half a second.
Kafka's own credentials have at most 16,384."""

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_REMEMBERED: Final = 4
"""Salted passwords that are kept: one is enough for a cluster whose brokers share credentials."""
_GS2_HEADER: Final = "n,,"


class _Key:
    """Bytes derived from a password, never shown."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        return f"_Key({MASK!r})"


class Scram(Mechanism):
    """SCRAM with one user.

    ``tokenauth``: the user name is the id of a delegation token and the password its HMAC (KIP-48,
    ``tokenauth="true"`` in the JAAS line).

    Raises:
        ConfigError: the mechanism is unknown; the name or the password is empty, has a NUL, or is
            not UTF-8.
    """

    __slots__ = ("_extensions", "_keys", "_new_nonce", "_password", "_username", "name")

    def __init__(
        self,
        name: str,
        username: str,
        password: Secret,
        *,
        tokenauth: bool = False,
        new_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        if name not in _HASHES:
            raise ConfigError(f"{name!r} is not a SCRAM mechanism; use {', '.join(_HASHES)}")
        self.name = name
        self._username = _sendable(f"{name}: the user name", Secret(username))
        self._password = _sendable(f"{name}: the password", password)
        self._extensions = ",tokenauth=true" if tokenauth else ""
        self._new_nonce = new_nonce
        self._keys: tuple[tuple[bytes, int, _Key], ...] = ()
        """Replaced, never changed: exchanges run in threads of their own."""

    async def begin(self, host: str) -> ScramExchange:
        """Start a login; the host plays no part in it."""
        return ScramExchange(self, self._new_nonce())

    def client_first(self, nonce: str) -> str:
        """The first message, without the header that says that no channel is bound."""
        return f"n={_sasl_name(self._username.reveal())},r={nonce}{self._extensions}"

    def salted_password(self, salt: bytes, iterations: int) -> _Key:
        """The password's key; takes long, unless a login with the same salt has succeeded."""
        for known_salt, known_iterations, key in self._keys:
            if (known_salt, known_iterations) == (salt, iterations):
                return key
        password = self._password.reveal().encode()
        return _Key(hashlib.pbkdf2_hmac(_HASHES[self.name], password, salt, iterations))

    def remember(self, salt: bytes, iterations: int, key: _Key) -> None:
        """Keep a key that a server has proved to know, so that logging in again is cheap."""
        others = [each for each in self._keys if each[:2] != (salt, iterations)]
        self._keys = ((salt, iterations, key), *others[: _REMEMBERED - 1])


class _State(Enum):
    FIRST = auto()
    """The client's first message comes next."""
    KEYED = auto()
    """The server names salt and iterations next."""
    PROVED = auto()
    """The server signs next."""
    OVER = auto()


class ScramExchange:
    """One login: first message, proof, and the check of the server's signature.

    ``complete`` only becomes true when the signature was checked, and that step's response is
    empty: there is nothing to send any more. A server that says that the login is done before that
    has proved nothing; whoever drives the exchange must refuse a login that is not complete.
    """

    blocking: ClassVar[bool] = True
    sent_secrets: ClassVar[tuple[Secret, ...]] = ()
    refusal: ClassVar[None] = None
    __slots__ = ("_key", "_mechanism", "_nonce", "_offer", "_state", "complete")

    def __init__(self, mechanism: Scram, nonce: str) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        self._state = _State.FIRST
        self._offer: _ServerFirst | None = None
        self._key: _Key | None = None
        self.complete = False

    def step(self, challenge: bytes) -> bytes:
        """See :class:`aioproducer.auth.mechanism.Exchange`.

        Raises:
            SaslAuthenticationFailedError: the server refuses, can't be trusted, or does not speak
                SCRAM. The exchange is over.
            IllegalSaslStateError: the exchange is over.
        """
        state, self._state = self._state, _State.OVER
        if state is _State.FIRST and not challenge:
            self._state = _State.KEYED
            return f"{_GS2_HEADER}{self._mechanism.client_first(self._nonce)}".encode()
        if state is _State.KEYED:
            response = self._prove(challenge)
            self._state = _State.PROVED
            return response
        if state is _State.PROVED:
            self._check(challenge)
            self.complete = True
            return b""
        raise IllegalSaslStateError(
            f"{self._mechanism.name}: the server sent an unexpected challenge"
        )

    def _prove(self, challenge: bytes) -> bytes:
        try:
            offer = _server_first(challenge)
        except _UnreadableError as error:
            raise self._refused(f"the server's first message is unusable: {error}") from None
        if isinstance(offer, _ServerError):
            raise self._refused(f"the server refused the login: {offer.reason}")
        if not offer.nonce.startswith(self._nonce) or len(offer.nonce) == len(self._nonce):
            raise self._refused(
                "the server's nonce does not extend the client's: the message may be "
                "a replay of another login, and the server can't be trusted"
            )
        if not _MIN_ITERATIONS <= offer.iterations <= MAX_ITERATIONS:
            raise self._refused(
                f"the server asks for {offer.iterations} iterations; the client "
                f"accepts {_MIN_ITERATIONS} (the lowest safe number) to {MAX_ITERATIONS}. "
                "Create the user's credentials again with a count in that range"
            )
        self._offer = offer
        self._key = self._mechanism.salted_password(offer.salt, offer.iterations)
        return f"{self._without_proof(offer)},p={self._proof(offer, self._key)}".encode()

    def _check(self, challenge: bytes) -> None:
        try:
            signature = _server_final(challenge)
        except _UnreadableError as error:
            raise self._refused(f"the server's last message is unusable: {error}") from None
        if isinstance(signature, _ServerError):
            raise self._refused(f"the server refused the login: {signature.reason}")
        offer, key = self._offer, self._key
        if offer is None or key is None or not self._is_signed(offer, key, signature):
            raise self._refused(
                "the server's signature is wrong: the server does not know the user's "
                "credentials, and can't be trusted"
            )
        self._mechanism.remember(offer.salt, offer.iterations, key)
        self._offer = self._key = None

    def _proof(self, offer: _ServerFirst, key: _Key) -> str:
        client_key = self._hmac(key.raw, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = self._hmac(stored_key, self._login(offer))
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return b64encode(proof).decode()

    def _is_signed(self, offer: _ServerFirst, key: _Key, signature: bytes) -> bool:
        expected = self._hmac(self._hmac(key.raw, b"Server Key"), self._login(offer))
        return hmac.compare_digest(signature, expected)

    def _login(self, offer: _ServerFirst) -> bytes:
        """The messages of this login, which both sides sign."""
        first = self._mechanism.client_first(self._nonce)
        return f"{first},{offer.text},{self._without_proof(offer)}".encode()

    def _without_proof(self, offer: _ServerFirst) -> str:
        return f"c={b64encode(_GS2_HEADER.encode()).decode()},r={offer.nonce}"

    @property
    def _hash(self) -> str:
        return _HASHES[self._mechanism.name]

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _refused(self, what: str) -> SaslAuthenticationFailedError:
        self._offer = self._key = None
        return SaslAuthenticationFailedError(f"{self._mechanism.name}: {what}")
