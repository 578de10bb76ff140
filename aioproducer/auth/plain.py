"""PLAIN: the password itself, in one message.

Source: RFC 4616; Kafka's ``PlainSaslClient`` and ``PlainSaslServer``.
"""

from __future__ import annotations

from typing import ClassVar

from aioproducer.auth.credentials import sendable
from aioproducer.auth.mechanism import Mechanism
from aioproducer.config.secret import Secret
from aioproducer.errors import IllegalSaslStateError

__all__ = ["Plain"]


class Plain(Mechanism):
    """PLAIN with one user. Anyone who reads the connection reads the password: use it with TLS.

    Raises:
        ConfigError: the user name or the password is empty, has a NUL, or is not UTF-8.
    """

    __slots__ = ("_password", "_username", "name")

    def __init__(self, username: str, password: Secret) -> None:
        self.name = "PLAIN"
        self._username = sendable("PLAIN: the user name", Secret(username))
        self._password = sendable("PLAIN: the password", password)

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
