"""The checks that user names and passwords pass before a mechanism takes them.

No function here raises while it holds a revealed secret: a traceback keeps the variables of its
frames, and some tools print them.
"""

from __future__ import annotations

from aioproducer.auth.saslprep import prohibition, saslprep
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

__all__ = ["prepared", "sendable"]


def sendable(what: str, text: Secret) -> Secret:
    """``text`` as it is, if it can be sent.

    Raises:
        ConfigError: it is empty, has a NUL, or can't be written as UTF-8.
    """
    if problem := _problem(text.reveal()):
        raise ConfigError(f"{what} {problem}; it is not shown")
    return text


def prepared(what: str, text: Secret) -> Secret:
    """``text`` after SASLprep.

    Raises:
        ConfigError: as :func:`sendable`, or SASLprep prohibits it.
    """
    sendable(what, text)
    after = Secret(saslprep(text.reveal()))
    if problem := prohibition(after.reveal()):
        raise ConfigError(
            f"{what} can't be used: after SASLprep (RFC 4013) {problem}; it is not shown"
        )
    return sendable(f"after SASLprep (RFC 4013), {what}", after)


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains a NUL character (U+0000), which no server accepts"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a surrogate, which UTF-8 can't encode"
    return None
