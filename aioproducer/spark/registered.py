"""The schemas of typed columns in a registry: registered, looked up, or the latest ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from aioproducer.errors import ConfigError, ProducerError, SchemaRegistryUnavailableError
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import free_lock
from aioproducer.schema_registry import Schema, SchemaRegistry
from aioproducer.spark.encodings import ColumnEncoding, RecordSchema
from aioproducer.spark.formats import FormatOptions
from aioproducer.spark.schemas import TypedColumn, check_latest

_SECONDS: Final = 60.0
"""The longest time that a plan waits for a registry, as long as a producer waits by default."""


@dataclass(frozen=True, slots=True)
class Known:
    """A registry, and what this process knows of it."""

    registry: SchemaRegistry
    ids: dict[tuple[str, Schema, bool], int] = field(default_factory=dict)
    """The ids of schemas by their subjects, normalized or not. They never change."""


class Registries:
    """The registries that this process has asked.

    A stream plans each of its micro-batches, mostly in one process. Its registry is asked once, and
    again after a failure; for the latest version every few minutes.
    """

    def __init__(self) -> None:
        self._lock = free_lock()
        self._known: dict[frozenset[tuple[str, str]], Known] = {}

    def known(self, properties: Mapping[str, str]) -> Known:
        """The registry with these properties.

        Raises:
            ConfigError: a property is wrong.
        """
        with self._lock:
            key = frozenset(properties.items())
            if key not in self._known:
                self._known[key] = Known(SchemaRegistry.from_properties(properties))
            return self._known[key]

    def forget(self, properties: Mapping[str, str]) -> None:
        """The next call makes the registry anew: its placeholders may have other values."""
        with self._lock:
            self._known.pop(frozenset(properties.items()), None)


_registries: Final = Registries()


def registered(formats: FormatOptions, columns: Sequence[TypedColumn]) -> list[ColumnEncoding]:
    """The encodings of ``columns``, with the registry's ids of their schemas. It blocks.

    Raises:
        ConfigError: a column does not fit its schema, or a property of the registry is wrong.
        SchemaRegistryError: the registry refuses a schema, or is not there.
    """
    # The calling thread may run an event loop, as a notebook's does.
    with ThreadPoolExecutor(1, "aioproducer-spark-registry") as beside:
        try:
            return beside.submit(asyncio.run, _ask(formats, columns)).result()
        except ProducerError:
            _registries.forget(formats.registry)
            raise


async def _ask(formats: FormatOptions, columns: Sequence[TypedColumn]) -> list[ColumnEncoding]:
    known = _registries.known(formats.registry)
    encodings = []
    try:
        async with asyncio.timeout(_SECONDS) as bound:
            for column in columns:
                schemas = {
                    topic: await _record_schema(known, formats, column, topic)
                    for topic in column.topics
                }
                encodings.append(ColumnEncoding(column.name, schemas))
    except TimeoutError as error:
        if not bound.expired() or isinstance(error, ProducerError):
            raise
        raise SchemaRegistryUnavailableError(
            f"the schema registry has not answered within {duration(_SECONDS)}"
        ) from None
    finally:
        await known.registry.close()
    return encodings


async def _record_schema(
    known: Known, formats: FormatOptions, column: TypedColumn, topic: str
) -> RecordSchema:
    subject = column.subject(topic)
    if formats.use_latest:
        return await _latest(known.registry, column, subject)
    schema = column.derived(topic)
    column.record_schema(schema, 0, {})  # nothing is registered that could not be written
    place = (subject, schema, formats.normalize)
    if place not in known.ids:
        ask = known.registry.register if formats.auto_register else known.registry.lookup
        found = await ask(subject, schema, normalize=formats.normalize)
        known.ids[place] = found.id
    return column.record_schema(schema, known.ids[place], {})


async def _latest(registry: SchemaRegistry, column: TypedColumn, subject: str) -> RecordSchema:
    latest = await registry.latest(subject)
    check_latest(column, latest, subject)
    references = await registry.resolve(latest.schema)
    try:
        return column.record_schema(latest.schema, latest.id, references)
    except ConfigError as error:
        version = "" if latest.version is None else f", version {latest.version}"
        raise type(error)(
            f"the latest schema of {subject!r}{version} (id {latest.id}): {error}"
        ) from error
