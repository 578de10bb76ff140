"""Responses of a registry, read as JSON or turned into the error that they mean. No I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from aioproducer.auth.peer_text import masked, printable
from aioproducer.config.secret import Secret
from aioproducer.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)

__all__ = ["RETRIED", "Answer", "body_of", "registry_message"]

RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Source: ``RestService.isRetriable`` of Confluent's client."""
_SUCCESS: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)
_UNAVAILABLE: Final = range(500, 600)
_LONGEST_MESSAGE: Final = 8000
"""Characters: a list of incompatibilities is long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, and its body within the limit."""

    status: int
    body: bytes = field(repr=False)  # it may repeat a secret of the request
    location: str | None = field(default=None, repr=False)
    retry_after: float | None = None
    """Seconds that the registry asks for."""


def body_of(answer: Answer, asked: str, url: str, *secrets: Secret) -> Any:
    """The JSON in a successful response; None if it is empty.

    Args:
        answer: the response.
        asked: the request for messages, ``GET http://registry/subjects``.
        url: the address for the error.
        secrets: are masked where the response repeats them.

    Raises:
        SchemaRegistryError: the response refuses the request, or is not JSON.
    """
    if answer.status not in _SUCCESS:
        raise _refusal(answer, asked, url, secrets)
    if not answer.body.strip():
        return None
    parsed = _parsed(answer.body)
    if isinstance(parsed, _NotJson):
        raise SchemaRegistryError(
            f"{asked}: the response is not JSON: is this the address of a schema registry?",
            url=url,
            status=answer.status,
        )
    return parsed


def registry_message(answer: Answer, *secrets: Secret) -> tuple[str, int | None]:
    """The registry's own message and its number; an empty text without one."""
    parsed = _parsed(answer.body)
    if not isinstance(parsed, dict):
        return "", None
    code, message = parsed.get("error_code"), parsed.get("message")
    number = code if isinstance(code, int) and not isinstance(code, bool) else None
    return (_shown(message, secrets) if isinstance(message, str) else ""), number


def _refusal(
    answer: Answer, asked: str, url: str, secrets: tuple[Secret, ...]
) -> SchemaRegistryError:
    message, code = registry_message(answer, *secrets)
    number = f", error {code}" if code is not None else ""
    told = f"{asked}: the schema registry answered with status {answer.status}{number}"
    told = f"{told}: {message}" if message else told
    if answer.status in _REDIRECTS:
        place = _place(answer.location or "")
        to = f" to {printable(place)}" if place else ""
        told = f"{told}, a redirect{to}: configure the final address"
    elif answer.status == 404 and not _names_the_missing(code):
        told = f"{told}; check the path of schema.registry.url"
    return _error_class(answer.status, code)(told, url=url, status=answer.status, error_code=code)


def _place(location: str) -> str:
    """An address without its query and its credentials."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _error_class(status: int, code: int | None) -> type[SchemaRegistryError]:
    if status in RETRIED or status in _UNAVAILABLE:
        return SchemaRegistryUnavailableError
    if status in (401, 403):
        return SchemaRegistryAuthenticationError
    if status == 404 and _names_the_missing(code):
        return SchemaNotFoundError
    if status == 409:
        return IncompatibleSchemaError
    return InvalidSchemaError if status == 422 else SchemaRegistryError


def _names_the_missing(code: int | None) -> bool:
    """The registry says that a subject, version or schema is missing: 40401 and the like.

    A server that does not know the path at all answers with another number, or with none.
    """
    return code is not None and 40400 < code < 40500


class _NotJson:
    """The body is no JSON."""


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return _NotJson()


def _shown(message: str, secrets: tuple[Secret, ...]) -> str:
    """The message without secrets and control characters; its lines stay."""
    text = masked(message[: 4 * _LONGEST_MESSAGE], *secrets)
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}…"
    lines = (
        "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
        for line in text.splitlines()
    )
    return "\n".join(lines)
