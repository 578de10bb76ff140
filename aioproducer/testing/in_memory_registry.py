"""A schema registry in memory, without a server, for fast tests.

:class:`Contents` has the subjects, versions and schemas, and builds the responses, without I/O.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

from aioproducer.errors import IllegalStateError, SchemaRegistryError
from aioproducer.schema_registry import Schema, SchemaRegistry
from aioproducer.schema_registry.rest.requests import Answer, RegistryRequest, body_of, registered

__all__ = [
    "Contents",
    "InMemorySchemaRegistry",
]


_FIELDS: Final[tuple[str, ...]] = ("schema", "schemaType", "references", "metadata", "ruleSet")


class _RefusedError(Exception):
    """The error of an answer: status, number and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class _Version:
    number: int
    schema_id: int
    deleted: bool = False


class Contents:
    """Answers requests as Confluent's registry does."""

    def __init__(self, judge: Callable[[Schema, Sequence[Schema]], Iterable[str]]) -> None:
        self._judge = judge
        self._ids: dict[str, int] = {}
        """The ids by the JSON of a schema's fields."""
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[_Version]] = {}
        self._levels: dict[str | None, str] = {None: "BACKWARD"}

    def answer(self, request: RegistryRequest) -> Any:
        """The body of the answer. Raises SchemaRegistryError."""
        parts = urlsplit(request.path)
        path = [unquote(each) for each in parts.path.strip("/").split("/")]
        query = dict(parse_qsl(parts.query))
        try:
            return self._answer(request.method, path, query, dict(request.body or {}))
        except _RefusedError as error:
            body = json.dumps({"error_code": error.code, "message": str(error)}).encode()
            url = f"memory:{request.path}"
            return body_of(Answer(int(str(error.code)[:3]), body), f"{request.method} {url}", url)

    def _answer(
        self, method: str, path: list[str], query: Mapping[str, str], body: dict[str, Any]
    ) -> Any:
        deleted = query.get("deleted") == "true"
        permanent = query.get("permanent") == "true"
        match method, path:
            case "GET", ["subjects"]:
                return [each for each in self._subjects if self._versions(each, deleted)]
            case "POST", ["subjects", subject]:
                return self._lookup(subject, body, deleted)
            case "DELETE", ["subjects", subject]:
                return [
                    self._delete(subject, each.number, permanent)
                    for each in self._existing(subject, permanent)
                ]
            case "GET", ["subjects", subject, "versions"]:
                return [each.number for each in self._existing(subject, deleted)]
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, body)
            case "GET", ["subjects", subject, "versions", version]:
                return self._shown(subject, self._version(subject, version, deleted))
            case "DELETE", ["subjects", subject, "versions", version]:
                number = self._version(subject, version, permanent).number
                return self._delete(subject, number, permanent)
            case "GET", ["schemas", "ids", number] if number.isdecimal():
                return self._by_id(int(number))
            case "GET", ["schemas", "guids", guid]:
                return self._by_guid(guid)
            case "POST", ["compatibility", "subjects", subject, "versions", *_]:
                reasons = self._reasons(subject, body)
                return {"is_compatible": not reasons, "messages": reasons}
            case "GET", ["config", *subject]:
                own = self._levels.get(subject[0]) if subject else None
                return {"compatibilityLevel": own or self._levels[None]}
            case "PUT", ["config", *subject]:
                self._levels[subject[0] if subject else None] = body["compatibility"]
                return body
        raise _RefusedError(404, "HTTP 404 Not Found")

    def _register(self, subject: str, body: dict[str, Any]) -> Any:
        fields = {name: body[name] for name in _FIELDS if name in body}
        schema_id = self._id_of(fields)
        for each in self._versions(subject):
            if each.schema_id == schema_id:
                return self._shown(subject, each)
        for reference in fields.get("references", ()):
            self._check_reference(reference["subject"], reference["version"])
        if reasons := self._reasons(subject, body):
            raise _RefusedError(
                409,
                "Schema being registered is incompatible with an earlier schema for subject"
                f' "{subject}", details: {reasons}',
            )
        schema_id = schema_id or len(self._schemas) + 1
        self._ids[json.dumps(fields, sort_keys=True)] = schema_id
        self._schemas[schema_id] = fields
        versions = self._subjects.setdefault(subject, [])
        versions.append(_Version(versions[-1].number + 1 if versions else 1, schema_id))
        return self._shown(subject, versions[-1])

    def _check_reference(self, subject: str, version: int) -> None:
        try:
            self._version(subject, str(version))
        except _RefusedError as error:
            raise _RefusedError(
                42201,
                f'Invalid schema, details: No schema reference found for subject "{subject}" and'
                f" version {version}",
            ) from error

    def _reasons(self, subject: str, body: dict[str, Any]) -> list[str]:
        if self._levels.get(subject, self._levels[None]) == "NONE":
            return []
        earlier = [self._schema(self._schemas[each.schema_id]) for each in self._versions(subject)]
        return list(self._judge(self._schema(body), earlier))

    def _lookup(self, subject: str, body: dict[str, Any], deleted: bool) -> Any:
        schema_id = self._id_of({name: body[name] for name in _FIELDS if name in body})
        for each in self._existing(subject, deleted):
            if each.schema_id == schema_id:
                return self._shown(subject, each)
        raise _RefusedError(40403, "Schema not found")

    def _by_id(self, schema_id: int) -> Any:
        if schema_id not in self._schemas:
            raise _RefusedError(40403, f"Schema {schema_id} not found")
        return {**self._schemas[schema_id], "guid": self._guid(schema_id)}

    def _by_guid(self, guid: str) -> Any:
        for schema_id, fields in self._schemas.items():
            if self._guid(schema_id) == guid:
                return fields
        raise _RefusedError(40403, f"Schema {guid} not found")

    def _delete(self, subject: str, number: int, permanent: bool) -> int:
        for each in list(self._subjects[subject]):
            if each.number != number:
                continue
            if permanent and not each.deleted:
                raise _RefusedError(
                    40405, f"Subject '{subject}' was not deleted first before being permanently"
                )
            each.deleted = True
            if permanent:
                self._subjects[subject].remove(each)
        return number

    def _versions(self, subject: str, deleted: bool = False) -> list[_Version]:
        return [each for each in self._subjects.get(subject, ()) if deleted or not each.deleted]

    def _existing(self, subject: str, deleted: bool) -> list[_Version]:
        versions = self._versions(subject, deleted)
        if not versions:
            raise _RefusedError(40401, f"Subject '{subject}' not found.")
        return versions

    def _version(self, subject: str, version: str, deleted: bool = False) -> _Version:
        versions = self._existing(subject, deleted)
        if version == "latest":
            return versions[-1]
        for each in versions:
            if str(each.number) == version:
                return each
        raise _RefusedError(40402, f"Version {version} not found.")

    def _shown(self, subject: str, version: _Version) -> dict[str, Any]:
        return {
            **self._schemas[version.schema_id],
            "subject": subject,
            "version": version.number,
            "id": version.schema_id,
            "guid": self._guid(version.schema_id),
        }

    def _id_of(self, fields: dict[str, Any]) -> int | None:
        return self._ids.get(json.dumps(fields, sort_keys=True))

    def _guid(self, schema_id: int) -> str:
        return str(uuid5(NAMESPACE_URL, json.dumps(self._schemas[schema_id], sort_keys=True)))

    @staticmethod
    def _schema(fields: dict[str, Any]) -> Schema:
        return registered(fields, schema_id=0).schema


Judge: TypeAlias = Callable[[Schema, Sequence[Schema]], Iterable[str]]
"""Returns the reasons why a schema is incompatible with the subject's earlier versions."""

_URL: Final = "memory:"


class InMemorySchemaRegistry(SchemaRegistry):
    """Registers and finds schemas like a registry. Equal strings are one schema, with one id.

    It does not parse schemas, and considers every schema compatible unless ``judge`` returns
    reasons.
    """

    def __init__(self, *, judge: Judge | None = None, latest_ttl: float = 300.0) -> None:
        self._memory = _MemoryTransport(Contents(judge or (lambda *_: ())))
        self._use(self._memory, latest_ttl)

    def __reduce__(self) -> tuple[Any, ...]:
        raise IllegalStateError(
            "an InMemorySchemaRegistry belongs to its process: it can't be pickled"
        )

    @property
    def requests(self) -> list[str]:
        """The requests so far, such as ``POST /subjects/orders-value/versions``. Cached responses
        cause no request."""
        return self._memory.log

    def fail_with(self, error: Exception | None) -> None:
        """Let requests fail with ``error``; None ends this."""
        self._memory.error = error

    def delay(self, seconds: float) -> None:
        """Delay every request."""
        self._memory.seconds = seconds


class _MemoryTransport:
    """Carries requests to schemas in memory."""

    def __init__(self, contents: Contents) -> None:
        self.log: list[str] = []
        self.error: Exception | None = None
        self.seconds = 0.0
        self._contents = contents

    @property
    def shown(self) -> str:
        return _URL

    def session(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def request(self, request: RegistryRequest) -> Any:
        self.log.append(f"{request.method} {request.path}")
        await asyncio.sleep(self.seconds)
        if isinstance(self.error, SchemaRegistryError) and self.error.url is None:
            self.error.url = f"{_URL}{request.path}"
        if self.error is not None:
            raise self.error
        return self._contents.answer(request)
