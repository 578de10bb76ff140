"""The token in a server's answer, or the server's reason for giving none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from aioproducer.auth.peer_text import json_object, printable
from aioproducer.auth.token import Token, token_from
from aioproducer.config.secret import Secret
from aioproducer.errors import TokenError

__all__ = ["reason_in", "token_in"]

_TOKEN_FIELDS: Final = ("access_token", "id_token")
_ERROR_FIELDS: Final = (("error", "error_description"), ("errorCode", "errorSummary"))
"""OAuth's (RFC 6749, section 5.2), and Okta's."""


def token_in(body: Secret, clock: Callable[[], float]) -> Token | str:
    """The token in a JSON object (RFC 6749, section 5.1), or the reason why there is none.

    It expires at the claim ``exp`` of a JWT, after ``expires_in`` seconds, or at ``expires_on``,
    as Azure's metadata servers give it in seconds since the epoch.
    """
    parsed = json_object(body.reveal())
    if parsed is None:
        return "answered with something other than a JSON object"
    value = next(
        (text for name in _TOKEN_FIELDS if isinstance(text := parsed.get(name), str) and text),
        None,
    )
    if value is None:
        return "answered without an access_token"
    try:
        token = token_from(value)
    except TokenError:
        return "answered with an access_token that is not a bearer token"
    expires = token.expires
    if expires is None and (lifetime := _positive(parsed.get("expires_in"))) is not None:
        expires = clock() + lifetime
    if expires is None:
        expires = _positive(parsed.get("expires_on"))
    scope = parsed.get("scope")
    shown = scope if isinstance(scope, str) else token.scope
    return Token(token.value, expires, token.principal, shown)


def reason_in(body: Secret, *secrets: Secret) -> str | None:
    """The error's code and its description, and nothing else of the body."""
    parsed = json_object(body.reveal()) or {}
    for code, description in _ERROR_FIELDS:
        if isinstance(parsed.get(code), str):
            told = [printable(parsed[code], *secrets)]
            if isinstance(parsed.get(description), str):
                told.append(printable(parsed[description], *secrets))
            return ", ".join(told)
    if type(parsed.get("statusCode")) is int and isinstance(parsed.get("message"), str):
        return printable(parsed["message"], *secrets)  # Azure's App Service
    return None


def _positive(number: object) -> float | None:
    """A number of seconds, which some servers give as text."""
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    try:
        seconds = float(number)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds > 0 else None
