"""Requests to a schema registry, and the reading of its responses or of their errors. No I/O.

Source: Confluent's REST API, ``RestService`` of its Java client. A response is not trusted: every
field that is used is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit
from uuid import UUID

from aioproducer.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
)
from aioproducer.foundation.secret import Secret, masked, printable
from aioproducer.schema_registry.model import (
    LEVELS,
    CompatibilityCheck,
    CompatibilityLevel,
    Reference,
    RegisteredSchema,
    Rule,
    RulePhase,
    Schema,
    SchemaType,
)

__all__ = [
    "RegistryRequest",
    "RegistryTransport",
    "RETRIED",
    "Answer",
    "body_of",
    "registry_message",
]


Method: TypeAlias = Literal["GET", "POST", "PUT", "DELETE"]
_T = TypeVar("_T")

_TYPES: Final[Mapping[str, SchemaType]] = {"AVRO": "AVRO", "JSON": "JSON", "PROTOBUF": "PROTOBUF"}
_PHASES: Final[Mapping[RulePhase, str]] = {
    "migration": "migrationRules",
    "domain": "domainRules",
    "encoding": "encodingRules",
}
_RULE_FIELDS: Final = ("name", "kind", "mode", "type", "disabled")


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """One request: its path below the registry's address, and its body."""

    method: Method
    path: str
    """Quoted, with its query."""
    body: Mapping[str, Any] | None = None

    @property
    def repeatable(self) -> bool:
        """A second execution changes nothing, and has the same response."""
        return self.method != "DELETE"


class RegistryTransport(Protocol):
    """Carries requests to a registry."""

    @property
    def shown(self) -> str:
        """The registry for messages, without secrets."""

    def session(self) -> AbstractAsyncContextManager[object]:
        """Several requests in a row are cheaper within it."""

    async def request(self, request: RegistryRequest) -> Any:
        """The response's body, which JSON was read from. Raises SchemaRegistryError."""


def path(*parts: str | int, **query: str | int | bool | None) -> str:
    """``/subjects/a%2Fb/versions/3?deleted=true``; what is None or False is left out.

    Raises:
        SchemaRegistryError: a part would lead to another address. Clients, proxies and servers
            take out the segments ``.`` and ``..``, some of them after they decode ``%2F``.
    """
    for part in map(str, parts):
        climbs = not {".", ".."}.isdisjoint(re.split(r"[/\\]", unquote(part)))
        if not part or climbs or re.search("[\ud800-\udfff]", part):
            raise SchemaRegistryError(
                f"{part[:100]!r} can't be a name in a schema registry: it is empty or no Unicode, "
                "or has '.' or '..' between slashes, which would lead to another address"
            )
    shown = {
        name: "true" if value is True else value
        for name, value in query.items()
        if value is not None and value is not False
    }
    text = "".join(f"/{quote(str(part), safe='')}" for part in parts)
    return f"{text}?{urlencode(shown, quote_via=quote)}" if shown else text


def fields_of(schema: Schema) -> dict[str, Any]:
    """The body that has ``schema``; as in Java, AVRO goes without saying."""
    fields: dict[str, Any] = {"schema": schema.text}
    if schema.schema_type != "AVRO":
        fields["schemaType"] = schema.schema_type
    if schema.references:
        fields["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
    if schema.metadata is not None:
        fields["metadata"] = dict(schema.metadata)
    if schema.rules:
        fields["ruleSet"] = {
            name: rules
            for phase, name in _PHASES.items()
            if (rules := [_fields_of_rule(each) for each in schema.rules if each.phase == phase])
        }
    return fields


def _fields_of_rule(rule: Rule) -> dict[str, Any]:
    known = {"name": rule.name, "kind": rule.kind, "mode": rule.mode, "type": rule.type}
    fields = {name: value for name, value in known.items() if value is not None}
    return {**rule.details, **fields, **({"disabled": True} if rule.disabled else {})}


def registered(
    response: Any,
    *,
    schema: Schema | None = None,
    schema_id: int | None = None,
    subject: str | None = None,
    version: int | None = None,
) -> RegisteredSchema:
    """The registered schema in a response; keywords stand in for fields that it lacks.

    Raises:
        SchemaRegistryError: a field is missing, or has another type than the API says.
    """
    fields = _object(response)
    found = _optional(fields, "id", int)
    number = found if found is not None else schema_id
    if number is None:
        raise SchemaRegistryError("the schema registry's response has no id")
    if schema is None or "schema" in fields:
        schema = _schema_in(fields)
    told_version = _optional(fields, "version", int)
    return RegisteredSchema(
        number,
        schema,
        _optional(fields, "subject", str) or subject,
        told_version if told_version is not None else version,
        _guid_in(fields),
    )


def _schema_in(fields: Mapping[str, Any]) -> Schema:
    text = _optional(fields, "schema", str)
    if text is None:
        raise SchemaRegistryError("the schema registry's response has no schema")
    named = _optional(fields, "schemaType", str) or "AVRO"
    schema_type = _TYPES.get(named)
    if schema_type is None:
        raise SchemaRegistryError(
            f"the schema registry's response has the unknown schemaType {named[:40]!r}"
        )
    references = tuple(_reference(each) for each in _optional(fields, "references", list) or ())
    # Java's Schema reads "ruleset" and writes "ruleSet": registries have been seen with either.
    rule_set = _optional(fields, "ruleSet", dict) or _optional(fields, "ruleset", dict) or {}
    rules = tuple(
        _rule(each, phase)
        for phase, name in _PHASES.items()
        for each in _optional(rule_set, name, list) or ()
    )
    return Schema(text, schema_type, references, rules, _optional(fields, "metadata", dict))


def _reference(entry: Any) -> Reference:
    fields = _object(entry)
    version = _optional(fields, "version", int)
    name, subject = _optional(fields, "name", str), _optional(fields, "subject", str)
    if name is None or subject is None or version is None:
        raise SchemaRegistryError(
            "the schema registry's response has a reference without a name, subject or version"
        )
    return Reference(name, subject, version)


def _rule(entry: Any, phase: RulePhase) -> Rule:
    fields = _object(entry)
    details = {name: value for name, value in fields.items() if name not in _RULE_FIELDS}
    return Rule(
        _optional(fields, "name", str) or "",
        _optional(fields, "kind", str),
        _optional(fields, "mode", str),
        _optional(fields, "type", str),
        phase,
        _optional(fields, "disabled", bool) or False,
        details,
    )


def _guid_in(fields: Mapping[str, Any]) -> UUID | None:
    text = _optional(fields, "guid", str)
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise SchemaRegistryError(
            f"the schema registry's response has an invalid guid: {text[:60]!r}"
        ) from None


def names(response: Any) -> tuple[str, ...]:
    """A list of strings. Raises SchemaRegistryError."""
    return _list_of(response, str)


def numbers(response: Any) -> tuple[int, ...]:
    """A list of whole numbers. Raises SchemaRegistryError."""
    return _list_of(response, int)


def number(response: Any) -> int:
    """A whole number. Raises SchemaRegistryError."""
    return _typed(response, int, "a response")


def compatibility_check(response: Any) -> CompatibilityCheck:
    """The judgement in a response. Raises SchemaRegistryError."""
    fields = _object(response)
    compatible = _optional(fields, "is_compatible", bool)
    if compatible is None:
        raise SchemaRegistryError("the schema registry's response has no is_compatible")
    messages = _optional(fields, "messages", list) or ()
    return CompatibilityCheck(compatible, names(list(messages)))


def level(response: Any) -> CompatibilityLevel:
    """The compatibility level in a response. Raises SchemaRegistryError."""
    fields = _object(response)
    told = _optional(fields, "compatibilityLevel", str) or _optional(fields, "compatibility", str)
    for each in LEVELS:
        if each == told:
            return each
    raise SchemaRegistryError(
        f"the schema registry's response has no known compatibility level: {str(told)[:40]!r}"
    )


def _object(value: Any) -> Mapping[str, Any]:
    return _typed(value, dict, "a response, or a part of it,")


def _optional(fields: Mapping[str, Any], name: str, kind: type[_T]) -> _T | None:
    value = fields.get(name)
    return None if value is None else _typed(value, kind, f"{name} in a response")


def _list_of(response: Any, kind: type[_T]) -> tuple[_T, ...]:
    entries: Sequence[Any] = _typed(response, list, "a response")
    return tuple(_typed(each, kind, "an entry of a response") for each in entries)


def _typed(value: Any, kind: type[_T], what: str) -> _T:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SchemaRegistryError(
            f"{what} of the schema registry has the type {type(value).__name__}, not"
            f" {kind.__name__}"
        )
    return value


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
    """The registry's own message and its number; an empty string without one."""
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
