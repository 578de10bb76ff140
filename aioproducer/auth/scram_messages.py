"""The messages of SCRAM that a server sends, read without trust, and the name a client sends.

Source: section 7 of RFC 5802; Kafka's ``ScramMessages``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from typing import Final

__all__ = [
    "ServerError",
    "ServerFirst",
    "UnreadableError",
    "sasl_name",
    "server_final",
    "server_first",
]

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


class UnreadableError(Exception):
    """A server's message is none of SCRAM. ``str()`` says why, without a piece of it."""


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The values from which the key is derived."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class ServerError:
    """The server's reason to refuse the login."""

    reason: str


def sasl_name(name: str) -> str:
    """A name as it stands in a message, ',' and '=' escaped."""
    return name.replace("=", "=3D").replace(",", "=2C")


def server_first(message: bytes) -> ServerFirst | ServerError:
    """The server's nonce, salt and iteration count.

    Raises:
        UnreadableError: it is not of the form.
    """
    text = _text(message)
    if error := _error(text):
        return error
    if text.startswith("m="):
        raise UnreadableError("it requires an extension that this client does not support")
    match = _SERVER_FIRST.fullmatch(text)
    if match is None or not match["salt"]:
        raise UnreadableError("it does not have the form r=…,s=…,i=…")
    return ServerFirst(text, match["nonce"], b64decode(match["salt"]), int(match["iterations"]))


def server_final(message: bytes) -> bytes | ServerError:
    """The server's signature.

    Raises:
        UnreadableError: it is not of the form.
    """
    text = _text(message)
    if error := _error(text):
        return error
    match = _SERVER_FINAL.fullmatch(text)
    if match is None:
        raise UnreadableError("it does not have the form v=… or e=…")
    return b64decode(match["signature"])


def _text(message: bytes) -> str:
    if not message:
        raise UnreadableError("it is empty")
    if len(message) > _MAX_MESSAGE:
        raise UnreadableError(f"it has {len(message)} bytes, more than {_MAX_MESSAGE}")
    text = message.decode("utf-8", "replace")
    if "\ufffd" in text:
        raise UnreadableError("it is not UTF-8")
    return text


def _error(text: str) -> ServerError | None:
    match = _SERVER_ERROR.fullmatch(text)
    if match is None:
        return None
    known = _NAME_OF_AN_ERROR.fullmatch(match["reason"])
    return ServerError(known[0] if known else "a reason that can't be shown")
