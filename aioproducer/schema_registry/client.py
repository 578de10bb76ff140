"""The client of a schema registry: its calls, and the cache of its answers."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias
from uuid import UUID

from aioproducer.schema_registry.model import (
    CompatibilityCheck,
    CompatibilityLevel,
    RegisteredSchema,
    Schema,
)

__all__ = ["BearerToken", "SchemaRegistry"]

BearerToken: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A token, or what gives one; a plain function is called in a thread."""


class SchemaRegistry:
    """A client of Confluent's schema registry, and of others that speak its REST API.

    One object may serve several producers, event loops and threads. Many callers that need one
    schema share one request. The registry's immutable answers are kept, failures are not.

    Every call raises :class:`~aioproducer.errors.SchemaRegistryError`, or one of its subclasses:
    ``SchemaRegistryUnavailableError`` (a later call may succeed), ``SchemaNotFoundError``,
    ``IncompatibleSchemaError``, ``InvalidSchemaError`` and ``SchemaRegistryAuthenticationError``.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | None = None,
        bearer_token: BearerToken | None = None,
        ssl_context: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        latest_ttl: float = 300.0,
    ) -> None:
        """Nothing is sent yet.

        Args:
            url: the address, or several ones; a registry that fails is asked last.
            username: for basic authentication, which ``https://user:password@host`` gives as well.
            password: for basic authentication.
            bearer_token: a token, or a function that gives one, which may be async; the function is
                called again when the registry refuses its token.
            ssl_context: for ``https://``; by default, the system's authorities are trusted.
            headers: are sent with every request.
            timeout: seconds for one request to one registry. Retries begin only within this time.
            latest_ttl: seconds for which the latest version of a subject is kept.

        Raises:
            ConfigError: an argument can't be used.
        """
        raise NotImplementedError

    @classmethod
    def from_properties(cls, source: Mapping[str, Any] | str) -> Self:
        """A client by the names of Java's properties: ``schema.registry.url``,
        ``basic.auth.user.info``, ``schema.registry.ssl.truststore.location``, …

        ``source``: the properties, or the path of a file with them. Placeholders such as
        ``${env:REGISTRY_PASSWORD}`` are resolved. Properties of producers are not looked at.

        Raises:
            ConfigError: a property is unknown, or its value can't be used.
        """
        raise NotImplementedError

    async def register(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register ``schema`` for ``subject``, which changes nothing if it is registered there.

        Raises:
            IncompatibleSchemaError: earlier versions of the subject rule the schema out.
            InvalidSchemaError: the registry can't parse the schema.
        """
        raise NotImplementedError

    async def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """The id and version of ``schema``, which is registered for ``subject``.

        Raises:
            SchemaNotFoundError: the schema is not registered for the subject.
        """
        raise NotImplementedError

    async def latest(self, subject: str) -> RegisteredSchema:
        """The latest version of ``subject``, at most ``latest_ttl`` seconds old."""
        raise NotImplementedError

    async def version(
        self, subject: str, version: int, *, deleted: bool = False
    ) -> RegisteredSchema:
        """One version of ``subject``; ``deleted``: it may have been deleted."""
        raise NotImplementedError

    async def by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        """The schema with the number ``schema_id``; ``subject`` names the context of the number."""
        raise NotImplementedError

    async def by_guid(self, guid: UUID) -> RegisteredSchema:
        """The schema with the globally unique id ``guid``.

        The registry's response may lack the number of the schema: ``id`` is 0 then.
        """
        raise NotImplementedError

    async def resolve(self, schema: Schema) -> Mapping[str, Schema]:
        """All schemas that ``schema`` refers to, directly and through others, by the names of the
        references; a schema stands behind those that it needs itself.

        Raises:
            SchemaNotFoundError: a reference leads nowhere.
            SchemaRegistryError: the references form a cycle, or are more than a thousand.
        """
        raise NotImplementedError

    async def is_compatible(
        self,
        subject: str,
        schema: Schema,
        *,
        version: int | Literal["latest", "all"] = "latest",
        normalize: bool = False,
    ) -> bool:
        """True if ``schema`` may be registered; see :meth:`check_compatibility`."""
        checked = await self.check_compatibility(
            subject, schema, version=version, normalize=normalize
        )
        return checked.compatible

    async def check_compatibility(
        self,
        subject: str,
        schema: Schema,
        *,
        version: int | Literal["latest", "all"] = "latest",
        normalize: bool = False,
    ) -> CompatibilityCheck:
        """The registry's judgement of ``schema``, with its reasons.

        ``version``: the version to compare with, or ``all`` that the subject's level demands.
        """
        raise NotImplementedError

    async def subjects(self, *, prefix: str = "", deleted: bool = False) -> tuple[str, ...]:
        """The names of the subjects; ``deleted``: those of deleted subjects, too."""
        raise NotImplementedError

    async def versions(self, subject: str, *, deleted: bool = False) -> tuple[int, ...]:
        """The versions of a subject."""
        raise NotImplementedError

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        """Delete a subject, and return its versions; ``permanent`` removes a deleted subject."""
        raise NotImplementedError

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Delete one version, and return it; ``permanent`` removes a deleted version."""
        raise NotImplementedError

    async def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        """The compatibility level of a subject (its own or the global one), or the global one."""
        raise NotImplementedError

    async def set_compatibility(
        self, level: CompatibilityLevel, subject: str | None = None
    ) -> None:
        """Set the compatibility level of a subject, or the global one."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the requests of this event loop, and forget the token. A later call works again."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
