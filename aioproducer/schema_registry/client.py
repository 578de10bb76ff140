"""The client of a schema registry: its calls, and the cache of its responses."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self, TypeVar
from uuid import UUID

from aioproducer.config.producer_config import PropertiesSource
from aioproducer.errors import SchemaRegistryError
from aioproducer.foundation.secret import hidden
from aioproducer.schema_registry.model import (
    CompatibilityCheck,
    CompatibilityLevel,
    Reference,
    RegisteredSchema,
    Schema,
    context_of,
    referred_schemas,
)
from aioproducer.schema_registry.rest import requests
from aioproducer.schema_registry.rest.answers import AnswerCache, Flights, Key
from aioproducer.schema_registry.rest.authentication import BearerToken
from aioproducer.schema_registry.rest.origins import (
    Arguments,
    Origin,
    Properties,
    hidden_headers,
    hidden_token,
    hidden_urls,
)
from aioproducer.schema_registry.rest.requests import RegistryRequest, RegistryTransport

__all__ = ["SchemaRegistry"]

_Answer = TypeVar("_Answer")


class SchemaRegistry:
    """A client for Confluent's schema registry, and for others with the same REST API.

    Several producers, event loops and threads can share one client. Concurrent callers that need
    the same schema share one request. Immutable responses are cached, failures are not.

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
            url: one or more addresses. A registry that fails is asked last.
            username: for basic authentication; ``https://user:password@host`` also works.
            password: for basic authentication.
            bearer_token: a token, or a function, possibly async, that returns one. The function is
                called again if the registry refuses the token.
            ssl_context: for ``https://``; by default the system's CAs are trusted.
            headers: sent with every request.
            timeout: seconds for one request to one registry. Retries begin only within this time.
            latest_ttl: seconds for which the latest version of a subject is cached.

        Raises:
            ConfigError: an argument can't be used.
        """
        arguments = Arguments(
            hidden_urls(url),
            username,
            hidden(password),
            hidden_token(bearer_token),
            ssl_context,
            hidden_headers(headers),
            timeout,
            latest_ttl,
        )
        del url, password, bearer_token, headers  # a traceback shows the values of this frame
        self._begin(arguments)

    @classmethod
    def from_properties(cls, source: PropertiesSource) -> Self:
        """Create a client from Java properties: ``schema.registry.url``, ``basic.auth.user.info``,
        ``schema.registry.ssl.truststore.location``, …

        ``source``: the properties, or the path of a properties file. Placeholders such as
        ``${env:REGISTRY_PASSWORD}`` are resolved, even without ``config.providers``. Properties of
        producers are ignored.

        Raises:
            ConfigError: a property is unknown, or its value can't be used.
        """
        properties = Properties.of(source)
        del source  # a traceback shows the values of this frame
        return _made_of(cls, properties)

    def _begin(self, origin: Origin) -> None:
        asking = origin.asking()
        self._origin = origin
        self._use(asking.transport, asking.latest_ttl)

    def _use(self, transport: RegistryTransport, latest_ttl: float) -> None:
        """Ask through ``transport``; a registry for tests brings its own."""
        self._transport = transport
        self._latest_ttl = latest_ttl
        self._cache = AnswerCache()
        self._flights = Flights()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made_of, (type(self), self._origin))

    def __repr__(self) -> str:
        if not hasattr(self, "_transport"):
            return f"<{type(self).__name__}>"  # a debugger looks at one that is being made
        return f"<{type(self).__name__} at {self._transport.shown}>"

    @property
    def latest_ttl(self) -> float:
        """Seconds for which the latest version of a subject is cached."""
        return self._latest_ttl

    async def register(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> RegisteredSchema:
        """Register ``schema`` for ``subject``. Registering it again changes nothing.

        Raises:
            IncompatibleSchemaError: the schema is incompatible with earlier versions.
            InvalidSchemaError: the registry can't parse the schema.
        """
        key = Key("register", subject, (schema, normalize))
        request = RegistryRequest(
            "POST",
            requests.path("subjects", subject, "versions", normalize=normalize),
            requests.fields_of(schema),
        )

        def read(response: Any) -> RegisteredSchema:
            found = requests.registered(response, schema=schema, subject=subject)
            self._forget(lambda each: each == Key("latest", subject))
            return found

        return await self._kept(key, request, read)

    async def lookup(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Return the id and version of ``schema``, which must be registered for ``subject``.

        Raises:
            SchemaNotFoundError: the schema is not registered for the subject.
        """
        request = RegistryRequest(
            "POST",
            requests.path("subjects", subject, normalize=normalize, deleted=deleted),
            requests.fields_of(schema),
        )
        return await self._kept(
            Key("lookup", subject, (schema, normalize, deleted)),
            request,
            lambda response: requests.registered(response, schema=schema, subject=subject),
        )

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of ``subject``, at most ``latest_ttl`` seconds old."""
        return await self._kept(
            Key("latest", subject),
            RegistryRequest("GET", requests.path("subjects", subject, "versions", "latest")),
            lambda response: requests.registered(response, subject=subject),
            self._latest_ttl,
        )

    def _latest_lasts(self, subject: str) -> float:
        """The seconds for which the version that :meth:`latest` has just returned may be used.

        The cache does not know the version if a subclass has found it in another way.
        """
        now = asyncio.get_running_loop().time()
        left = self._cache.seconds_left(Key("latest", subject), now)
        return self.latest_ttl if left is None else left

    async def version(
        self, subject: str, version: int, *, deleted: bool = False
    ) -> RegisteredSchema:
        """Return a version of ``subject``; ``deleted`` also finds deleted versions.

        As in Confluent's API, version -1 is the latest.
        """
        if version == -1:
            return await self.latest(subject)
        path = requests.path("subjects", subject, "versions", version, deleted=deleted)
        return await self._kept(
            Key("version", subject, (version, deleted)),
            RegistryRequest("GET", path),
            lambda response: requests.registered(response, subject=subject, version=version),
        )

    async def by_id(self, schema_id: int, *, subject: str | None = None) -> RegisteredSchema:
        """Return the schema with the id ``schema_id``; ``subject`` names the context of the id."""
        return await self._kept(
            Key("id", subject, (schema_id,)),
            RegistryRequest("GET", requests.path("schemas", "ids", schema_id, subject=subject)),
            lambda response: requests.registered(response, schema_id=schema_id, subject=subject),
        )

    async def by_guid(self, guid: UUID) -> RegisteredSchema:
        """Return the schema with the globally unique id ``guid``.

        If the registry's response lacks the schema's number, ``id`` is 0.
        """
        return await self._kept(
            Key("guid", None, (guid,)),
            RegistryRequest("GET", requests.path("schemas", "guids", str(guid))),
            lambda response: replace(requests.registered(response, schema_id=0), guid=guid),
        )

    async def resolve(self, schema: Schema, *, subject: str | None = None) -> Mapping[str, Schema]:
        """Return all schemas that ``schema`` refers to, directly or indirectly, by reference name.
        Every schema comes after those that it refers to.

        ``subject``: the context of references that do not name one.

        Raises:
            SchemaNotFoundError: a referenced schema does not exist.
            SchemaRegistryError: the references form a cycle, or there are more than a thousand.
        """

        async def fetch(reference: Reference) -> Schema:
            # A deleted version still serves the schemas that refer to it.
            found = await self.version(reference.subject, reference.version, deleted=True)
            return found.schema

        if not schema.references:
            return {}
        async with self._transport.session():
            return await referred_schemas(schema, context_of(subject or ""), fetch)

    async def is_compatible(
        self,
        subject: str,
        schema: Schema,
        *,
        version: int | Literal["latest", "all"] = "latest",
        normalize: bool = False,
    ) -> bool:
        """Return True if ``schema`` can be registered; see :meth:`check_compatibility`."""
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
        """Return whether the registry finds ``schema`` compatible, and its reasons.

        ``version``: the version to compare with, or ``all`` versions that the subject's
        compatibility level requires.
        """
        last = () if version == "all" else (version,)
        path = requests.path(
            *("compatibility", "subjects", subject, "versions", *last),
            normalize=normalize,
            verbose=True,
        )
        request = RegistryRequest("POST", path, requests.fields_of(schema))
        return await self._asked(request, requests.compatibility_check)

    async def subjects(self, *, prefix: str = "", deleted: bool = False) -> tuple[str, ...]:
        """Return the names of the subjects; ``deleted`` includes deleted subjects."""
        path = requests.path("subjects", subjectPrefix=prefix or None, deleted=deleted)
        found = await self._asked(RegistryRequest("GET", path), requests.names)
        return tuple(each for each in found if each.startswith(prefix))

    async def versions(self, subject: str, *, deleted: bool = False) -> tuple[int, ...]:
        """Return the versions of a subject."""
        path = requests.path("subjects", subject, "versions", deleted=deleted)
        return await self._asked(RegistryRequest("GET", path), requests.numbers)

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        """Delete a subject, and return its versions; ``permanent`` removes a deleted subject."""
        path = requests.path("subjects", subject, permanent=permanent)
        try:
            return await self._asked(RegistryRequest("DELETE", path), requests.numbers)
        finally:
            self._forget(lambda each: each.subject == subject)

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        """Delete one version, and return it; ``permanent`` removes a deleted version."""
        path = requests.path("subjects", subject, "versions", version, permanent=permanent)
        try:
            return await self._asked(RegistryRequest("DELETE", path), requests.number)
        finally:
            self._forget(lambda each: each.subject == subject)

    async def compatibility(self, subject: str | None = None) -> CompatibilityLevel:
        """Return the compatibility level of a subject (by default the global level), or the global
        level."""
        if subject is None:
            path = requests.path("config")
        else:
            path = requests.path("config", subject, defaultToGlobal=True)
        return await self._asked(RegistryRequest("GET", path), requests.level)

    async def set_compatibility(
        self, level: CompatibilityLevel, subject: str | None = None
    ) -> None:
        """Set the compatibility level of a subject, or the global one."""
        path = requests.path("config") if subject is None else requests.path("config", subject)
        body = {"compatibility": level}
        await self._asked(RegistryRequest("PUT", path, body), lambda _: None)

    async def close(self) -> None:
        """Cancel the requests of this event loop; their callers get an error.

        You can use the client again afterwards.
        """
        await self._flights.close()

    def _forget(self, unwanted: Callable[[Key], bool]) -> None:
        """From now on ask anew: neither a kept answer nor one on its way serves these calls."""
        self._cache.forget(unwanted)
        self._flights.forget(unwanted)

    async def _kept(
        self,
        key: Key,
        request: RegistryRequest,
        read: Callable[[Any], _Answer],
        seconds: float = math.inf,
    ) -> _Answer:
        """The answer from the cache, or from the registry; one request for all who need it.

        ``seconds``: how long it is kept; infinite for an answer that can't change. Errors are not
        kept.
        """
        time = asyncio.get_running_loop().time
        kept: _Answer | None = self._cache.get(key, time())
        if kept is not None:
            return kept

        async def ask() -> _Answer:
            begun = time()
            with self._cache.awaiting(key) as awaited:
                answer = await self._asked(request, read)
                self._cache.put(awaited, answer, begun + seconds)
            return answer

        return await self._flights.share(key, ask)

    async def _asked(self, request: RegistryRequest, read: Callable[[Any], _Answer]) -> _Answer:
        response = await self._transport.request(request)
        try:
            return read(response)
        except SchemaRegistryError as error:
            url = f"{self._transport.shown}{request.path}"
            raise SchemaRegistryError(f"{request.method} {url}: {error}", url=url) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


_Registry = TypeVar("_Registry", bound=SchemaRegistry)


def _made_of(kind: type[_Registry], origin: Origin) -> _Registry:
    made = kind.__new__(kind)
    made._begin(origin)
    return made
