"""The part of a serializer that all formats share: policies, subjects, preparation, failures.

A serializer knows for each topic which schemas its values need. ``prepare()`` fetches them, and
``serialize()`` finds the encoder by the type of the value, without the network.
:class:`SchemaSources` has the schemas that are known without the registry.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Self, TypeAlias
from weakref import WeakKeyDictionary

from aioproducer.engine.client.environment import SYSTEM
from aioproducer.errors import ConfigError, NotPreparedError, ProducerError, SerializationError
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.tasks import TaskOwner, new_task
from aioproducer.model.type_parameters import Value
from aioproducer.schema_registry.client import SchemaRegistry
from aioproducer.schema_registry.model import (
    RegisteredSchema,
    Schema,
    SchemaType,
    refuse_rules_of_writers,
)
from aioproducer.schema_registry.policies import Settings, needs_record_name, subject_name
from aioproducer.schema_registry.wire_format import HEADERS, header_bytes, id_bytes
from aioproducer.serialization import Field, RecordHeaders
from aioproducer.serialization.serializer import may_succeed_later

_logger = plain_logger(__name__)


_clock: Final = SYSTEM.clock

Encode: TypeAlias = Callable[[Any, RecordHeaders], bytes]
"""From a value and the headers of its record to its bytes, after the prefix."""

_FAILURE_LASTS: Final = 30.0  # seconds for which a permanent failure of a schema is remembered
_SHORTEST_TTL: Final = 1.0  # seconds between two requests for a latest version, at least
_TYPES: Final = 1000  # of the values of one topic, whose encoders are kept


@dataclass(frozen=True, slots=True)
class LocalSchema:
    """A schema that the serializer has without the registry, and the full name of its record."""

    schema: Schema
    name: str | None


@dataclass(frozen=True, slots=True)
class Target:
    """One schema that values of one topic are written by."""

    topic: str
    field: Field
    subject: str
    registered: RegisteredSchema
    schema: Schema
    """The schema by which values are written: the serializer's own, or the registered one."""
    named: Mapping[str, Schema]
    """The schemas that it refers to, by the names of the references; dependencies first."""
    prefix: bytes = b""

    @property
    def place(self) -> str:
        """The beginning of error messages."""
        return _place(self.topic, self.subject)


@dataclass(slots=True)
class _Ready:
    target: Target
    refresh_at: float | None
    """The time at which the latest version is requested again, by :meth:`SchemaRegistry.latest`,
    which decides how old it may be; None: the schema is fixed."""


@dataclass(slots=True)
class _Failed:
    error: ProducerError
    until: float


@dataclass(slots=True)
class _Topic:
    """The schemas of a topic."""

    outcomes: dict[Hashable, _Ready | _Failed] = field(default_factory=dict)
    encoders: dict[type, Encode] = field(default_factory=dict)
    wanted: set[Hashable] = field(default_factory=set)
    """The schemas that values have asked for."""


class SchemaSerializer(ABC, Generic[Value]):
    """The base class of the serializers, which write the registry's schema id and the encoded
    value."""

    schema_type: SchemaType
    _sources: SchemaSources
    """Unset in a serializer that finds its schemas otherwise."""

    def __init__(self, registry: SchemaRegistry | str, settings: Settings) -> None:
        self._owns_registry = isinstance(registry, str)
        self._registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._settings = settings
        self._field: Field = "value"
        self._topics: dict[str, _Topic] = {}
        self._encoders: dict[str, dict[type, Encode]] = {}
        self._refreshers: WeakKeyDictionary[asyncio.AbstractEventLoop, TaskOwner]
        self._refreshers = WeakKeyDictionary()

    # --- what the formats differ in -----------------------------------------------------------

    def _known(self) -> tuple[Hashable, ...]:
        """The keys of the schemas that every topic may need, known ahead."""
        return self._sources.known

    def _key(self, topic: str, kind: type) -> Hashable:
        """The key of the schema for values of a type. Raises SerializationError if none fits."""
        return self._sources.key(topic, kind)

    def _local(self, key: Hashable) -> LocalSchema | None:
        """The schema of a key, without the registry; None: only the registry has it."""
        return self._sources.local(key)

    @abstractmethod
    def _encoder(self, target: Target, key: Hashable, kind: type) -> Encode:
        """The encoder for values of a type. It raises SerializationError for what does not fit."""

    async def _completed(self, local: LocalSchema, key: Hashable) -> Schema:
        """The schema of ``local`` as the registry shall have it, with its references."""
        return local.schema

    def _framing(self, target: Target, key: Hashable) -> tuple[int, ...]:
        """The message indexes after the schema id: only Protobuf has some."""
        return ()

    # --- the protocol of serializers ----------------------------------------------------------

    def for_field(self, field: Field) -> Self:
        """Return a serializer for keys or values that shares the registry with this one."""
        if field == self._field:
            return self
        other = copy(self)  # without what was fetched
        other._field = field
        return other

    def serialize(self, topic: str, data: Value, headers: RecordHeaders) -> bytes:
        """Return the bytes of ``data``. The schema id is put before them, or added to ``headers``.

        Raises:
            SerializationError: the value does not fit the schema; the message names the field.
            SchemaRegistryError: the registry refused the value's schema.
            NotPreparedError: :meth:`prepare` must be called first.
        """
        try:
            encode = self._encoders[topic][type(data)]
        except KeyError:
            encode = self._encoder_for(topic, type(data))
        return encode(data, headers)

    async def prepare(self, topic: str) -> None:
        """Fetch the schemas that values for ``topic`` need: those known in advance, and those that
        values have needed.

        If the registry refuses a schema, :meth:`serialize` fails for the records that need it.

        Raises:
            SchemaRegistryUnavailableError: the registry can't be reached; a later call may succeed.
        """
        state = self._state(topic)
        keys = dict.fromkeys((*self._known(), *tuple(state.wanted)))
        missing = [key for key in keys if self._is_missing(state, key)]
        unavailable: Exception | None = None
        loads = [new_task(self._load(topic, state, key)) for key in missing]
        for key, outcome in zip(
            missing, await asyncio.gather(*loads, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, Exception) and may_succeed_later(outcome):
                unavailable = unavailable or outcome
                continue
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, Exception):
                self._remember(topic, state, key, outcome)
            state.wanted.discard(key)
        for key, ready in tuple(state.outcomes.items()):
            if isinstance(ready, _Ready) and _is_due(ready):
                ready.refresh_at = self._after(self._registry.latest_ttl)  # if this fails
                self._refresh(topic, state, key)
        if unavailable is not None:
            raise unavailable

    async def close(self) -> None:
        """Cancel the requests of this event loop. A registry that you passed as an object stays
        open."""
        owner = self._refreshers.pop(asyncio.get_running_loop(), None)
        if owner is not None:
            await owner.close()
        if self._owns_registry:
            await self._registry.close()

    def __getstate__(self) -> dict[str, Any]:
        """Only settings and schemas: another process fetches for itself."""
        fresh: dict[str, Any] = {"_topics": {}, "_encoders": {}, "_refreshers": None}
        return {**self.__dict__, **fresh}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _refreshers=WeakKeyDictionary())

    # --- the schemas of a topic ---------------------------------------------------------------

    def _after(self, seconds: float) -> float:
        return _clock() + max(_SHORTEST_TTL, seconds)

    def _state(self, topic: str) -> _Topic:
        state = self._topics.get(topic)
        if state is None:
            state = self._topics.setdefault(topic, _Topic())
            self._encoders[topic] = state.encoders
        return state

    def _is_missing(self, state: _Topic, key: Hashable) -> bool:
        outcome = state.outcomes.get(key)
        return outcome is None or (isinstance(outcome, _Failed) and outcome.until <= _clock())

    async def _load(self, topic: str, state: _Topic, key: Hashable) -> None:
        state.outcomes[key] = await self._fetch(topic, key)
        state.encoders.clear()

    async def _fetch(self, topic: str, key: Hashable) -> _Ready:
        settings = self._settings
        local = self._local(key)
        subject = subject_name(
            settings.strategy, topic, self._field, local.name if local is not None else None
        )
        own = None
        if local is not None and settings.policy.writes_own_schema:
            own = await self._completed(local, key)
        registered = await settings.policy.fetch(self._registry, subject, own)
        refresh_at = None
        if settings.policy.choice == "latest":
            refresh_at = self._after(self._registry._latest_lasts(subject))
        place = _place(topic, subject)
        refuse_rules_of_writers(registered.schema, place)
        if registered.schema.schema_type != self.schema_type:
            raise SerializationError(
                f"{place}: the schema {registered.id} has the type "
                f"{registered.schema.schema_type}, "
                f"not {self.schema_type}"
            )
        schema = own or registered.schema
        named = await self._registry.resolve(schema) if schema.references else {}
        target = Target(topic, self._field, subject, registered, schema, named)
        if settings.location == "prefix":
            target = replace(target, prefix=id_bytes(registered.id, self._framing(target, key)))
        return _Ready(target, refresh_at)

    def _remember(self, topic: str, state: _Topic, key: Hashable, error: Exception) -> None:
        if not isinstance(error, ProducerError):
            failure = SerializationError(
                f"topic {topic!r}: the schema of a {self._field} can't be used: "
                f"{type(error).__name__}: {error}"
            )
            failure.__cause__ = error
            error = failure
        state.outcomes[key] = _Failed(error, _clock() + _FAILURE_LASTS)
        state.encoders.clear()

    def _refresh(self, topic: str, state: _Topic, key: Hashable) -> None:
        """Ask for the latest version again; records are written by the known one meanwhile."""
        owner = self._refreshers.setdefault(
            asyncio.get_running_loop(), TaskOwner(lambda cause: None)
        )
        owner.start(self._refreshed(topic, state, key), f"aioproducer-latest-schema-{topic}")

    async def _refreshed(self, topic: str, state: _Topic, key: Hashable) -> None:
        try:
            await self._load(topic, state, key)
        except Exception as error:
            _logger.warning(
                "topic %r: records are written with the previous latest schema: %s",
                topic,
                error,
            )

    # --- the encoder of a type ----------------------------------------------------------------

    def _encoder_for(self, topic: str, kind: type) -> Encode:
        state = self._state(topic)
        key = self._key(topic, kind)
        outcome = state.outcomes.get(key)
        if isinstance(outcome, _Ready):
            encode = self._framed(outcome, key, kind)
            if len(state.encoders) >= _TYPES:
                state.encoders.clear()
            state.encoders[kind] = encode
            if state.outcomes.get(key) is not outcome:  # replaced meanwhile, by another thread
                state.encoders.pop(kind, None)
            return encode
        if isinstance(outcome, _Failed) and _clock() < outcome.until:
            raise anew(outcome.error)
        state.wanted.add(key)
        raise NotPreparedError(
            f"topic {topic!r}: the schema of a {self._field} of type {kind.__name__} was not "
            "fetched yet"
        )

    def _framed(self, ready: _Ready, key: Hashable, kind: type) -> Encode:
        """The encoder that also puts the schema id where it belongs."""
        target = ready.target
        encode = self._encoder(target, key, kind)
        if self._settings.location == "header":
            registered = target.registered
            mark = header_bytes(registered.id, registered.guid, self._framing(target, key))
            encode = _with_header(encode, HEADERS[self._field], mark)
        return encode if ready.refresh_at is None else _while_current(encode, ready)


def _with_header(encode: Encode, name: str, mark: bytes) -> Encode:
    def encode_and_mark(data: Any, headers: RecordHeaders) -> bytes:
        encoded = encode(data, headers)
        headers.append((name, mark))
        return encoded

    return encode_and_mark


def _while_current(encode: Encode, ready: _Ready) -> Encode:
    def encode_by_latest(data: Any, headers: RecordHeaders) -> bytes:
        if _is_due(ready):
            place = ready.target.place
            raise NotPreparedError(f"{place}: the latest version must be requested again")
        return encode(data, headers)

    return encode_by_latest


def _place(topic: str, subject: str) -> str:
    return f"topic {topic!r}, subject {subject!r}"


def _is_due(ready: _Ready) -> bool:
    return ready.refresh_at is not None and ready.refresh_at <= _clock()


SchemaSource: TypeAlias = str | Mapping[str, Any] | list[Any] | Schema
"""A schema as text, as parsed JSON, or as a Schema, which may have references."""

ONLY: Final = None
"""The key of the only schema of a serializer."""


class SchemaSources:
    """Finds the schema for values of a class.

    ``of_class`` gives the schema that a class has itself, ``name_of`` the full name in a schema.
    """

    def __init__(
        self,
        schema_type: SchemaType,
        given: SchemaSource | Mapping[Any, object] | None,
        of_class: Callable[[type], Any],
        name_of: Callable[[Schema], str | None],
        settings: Settings,
    ) -> None:
        self._type = schema_type
        self._of_class = of_class
        self._name_of = name_of
        self._settings = settings
        self._classes: dict[type, Schema] | None = None
        self._only: LocalSchema | None = None
        if isinstance(given, Mapping) and given and all(isinstance(key, type) for key in given):
            classes: Mapping[Any, Any] = given
            self._classes = {key: schema_of(schema_type, each) for key, each in classes.items()}
        elif given is not None:
            self._only = self._named(schema_of(schema_type, given))
        self._refuse_policies()
        self._found: dict[type, LocalSchema] = {}

    def _refuse_policies(self) -> None:
        policy = self._settings.policy
        if self._classes is not None and policy.choice in ("id", "version"):
            raise ConfigError(
                f"use_schema_{policy.choice} needs one schema, not one for each class"
            )
        strategy = self._settings.strategy
        one_subject = not needs_record_name(strategy) and not callable(strategy)
        if self._classes is not None and policy.choice == "latest" and one_subject:
            raise ConfigError(
                "use_latest_version with a schema for each class needs a subject for each: set "
                "subject_name_strategy"
            )

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The keys of all schemas that are known ahead."""
        if self._classes is not None:
            return tuple(self._classes)
        return (ONLY,) if self._single else ()

    @property
    def _single(self) -> bool:
        """True if one schema serves all values."""
        if self._only is not None:
            return True
        policy, strategy = self._settings.policy, self._settings.strategy
        return not policy.writes_own_schema and not (
            needs_record_name(strategy) and policy.choice != "id"
        )

    def key(self, topic: str, kind: type) -> Hashable:
        """The key of the schema for values of a type.

        Raises:
            SerializationError: no schema was given for the type, and it has none itself.
        """
        if self._classes is not None:
            for each in kind.__mro__:
                if each in self._classes:
                    return each
            known = ", ".join(sorted(each.__name__ for each in self._classes)[:10])
            raise SerializationError(
                f"topic {topic!r}: no schema for a {kind.__name__}; there are schemas for {known}"
            )
        if self._single:
            return ONLY
        if self._of_class(kind) is None:
            raise SerializationError(
                f"topic {topic!r}: a {kind.__name__} has no schema: pass one to the serializer, "
                "or set use_latest_version"
            )
        return kind

    def local(self, key: Hashable) -> LocalSchema | None:
        """The schema of a key; None: only the registry has it."""
        if key is ONLY:
            return self._only
        assert isinstance(key, type)
        found = self._found.get(key)
        if found is None:
            if self._classes is not None:
                schema = self._classes[key]
            else:
                schema = schema_of(self._type, self._of_class(key))
            found = self._found[key] = self._named(schema)
        return found

    def _named(self, schema: Schema) -> LocalSchema:
        return LocalSchema(schema, self._name_of(schema))


def schema_of(schema_type: SchemaType, source: Any) -> Schema:
    if isinstance(source, Schema):
        if source.schema_type != schema_type:
            raise ConfigError(f"the schema has the type {source.schema_type}, not {schema_type}")
        return source
    if isinstance(source, str):
        text = source.strip()
        if schema_type == "AVRO" and text.isidentifier():
            text = json.dumps(text)  # "string" is the name of a type, and no JSON
        return Schema(text, schema_type)
    if isinstance(source, Mapping | list | bool):
        try:
            return Schema(json.dumps(source, separators=(",", ":")), schema_type)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"the schema can't be written as JSON: {error}") from error
    raise ConfigError(f"a schema is text, a mapping or a Schema, not {type(source).__name__}")
