"""The protocols of a login: its options as read, its mechanism, and one exchange with one broker.

Source: RFC 4422, and ``SaslClientAuthenticator`` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeAlias

from aioproducer.foundation.secret import Secret

__all__ = ["Exchange", "Login", "Mechanism", "Options"]

Options: TypeAlias = Any
"""A configuration, with each option as an attribute: it belongs to ``config/``, above this room."""


class Login(Protocol):
    """The login that a configuration asks for, read and checked as far as no file, network or
    library is needed. It can be compared and pickled, and shows no secret."""

    __slots__ = ()

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """The imports of libraries that it may call."""
        return ()

    @property
    def asks_over_https(self) -> bool:
        """A token's source is asked over HTTPS with the authorities of ``ssl_truststore_…``."""
        return False

    def make(self, options: Options, clock: Callable[[], float]) -> Mechanism:
        """The mechanism with its credentials, for the ``options`` that this login was read from.

        ``clock`` gives seconds since the epoch (``time.time``).

        Raises:
            ConfigError: credentials can't be used.
            MissingExtraError: the mechanism needs an extra that is not installed.
        """


class Exchange(Protocol):
    """One login at one broker, as a sequence of responses to challenges. It does no I/O itself,
    unless :attr:`blocking` says so."""

    blocking: ClassVar[bool]
    """A step takes long (a key derivation, a question to a KDC): run it beside the event loop."""

    complete: bool
    """The client has nothing more to say, and the server has proved what it has to."""

    @property
    def sent_secrets(self) -> tuple[Secret, ...]:
        """The secrets that the broker gets, and might repeat in its messages."""

    @property
    def refusal(self) -> str | None:
        """The broker's reason against the login, from a challenge before its error code."""

    def step(self, challenge: bytes) -> bytes:
        """The response to ``challenge``; the first challenge is empty.

        Raises:
            AuthenticationError: the server can't be trusted, or has said that it refuses.
        """


class Mechanism(Protocol):
    """A SASL mechanism with the credentials of a producer; it serves all connections."""

    __slots__ = ()

    name: str
    """Its name at brokers: ``SCRAM-SHA-256``."""

    async def current(self) -> Mechanism:
        """The mechanism with the credentials as they are now: the same one until they change.

        Raises:
            AuthenticationError: there are no credentials, or they can't be used. Final.
            NetworkError: they can't be had at present.
        """
        return self

    async def begin(self, host: str) -> Exchange:
        """Start a login at the broker ``host``; gets a token where one is needed.

        Raises:
            AuthenticationError: there are no credentials, or they can't be used. Final.
            NetworkError: they can't be had at present (a token endpoint is down, say).
        """

    async def close(self) -> None:
        """End what the mechanism runs on this event loop, within a moment."""
        return  # by default nothing runs between logins
