"""The schemas of typed columns in a registry: registered, looked up, or the latest ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final

from aioproducer.errors import ConfigError, ProducerError, SchemaRegistryUnavailableError
from aioproducer.schema_registry import RegisteredSchema, SchemaRegistry
from aioproducer.spark.encodings import ColumnEncoding, RecordSchema
from aioproducer.spark.formats import FormatOptions
from aioproducer.spark.schemas import TypedColumn, check_registered

_SECONDS: Final = 60.0
"""The longest time that a plan waits for a registry, as long as a producer waits by default."""


class Registries:
    """The registries that this process has asked, each with the answers that it keeps.

    A stream plans each of its micro-batches, mostly in one process.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[frozenset[tuple[str, str]], SchemaRegistry] = {}

    def registry(self, properties: Mapping[str, str]) -> SchemaRegistry:
        """The registry with these properties.

        Raises:
            ConfigError: a property is wrong.
        """
        with self._lock:
            key = frozenset(properties.items())
            if key not in self._known:
                self._known[key] = SchemaRegistry.from_properties(properties)
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
    registry = _registries.registry(formats.registry)
    try:
        async with asyncio.timeout(_SECONDS) as bound:
            return [
                ColumnEncoding(
                    column.name,
                    {
                        topic: await _record_schema(registry, formats, column, topic)
                        for topic in column.topics
                    },
                )
                for column in columns
            ]
    except TimeoutError:
        if not bound.expired():
            raise
        raise SchemaRegistryUnavailableError(
            f"the schema registry has not answered within {_SECONDS:.0f} seconds"
        ) from None
    finally:
        await registry.close()


async def _record_schema(
    registry: SchemaRegistry, formats: FormatOptions, column: TypedColumn, topic: str
) -> RecordSchema:
    subject = column.subject(topic)
    if not formats.use_latest:
        schema = column.derived(topic)
        column.record_schema(schema, 0, {})  # nothing is registered that could not be written
        ask = registry.register if formats.auto_register else registry.lookup
        found = await ask(subject, schema, normalize=formats.normalize)
        return column.record_schema(schema, found.id, {})
    latest = await registry.latest(subject)
    check_registered(column, latest, subject)
    references = await registry.resolve(latest.schema)
    try:
        return column.record_schema(latest.schema, latest.id, references)
    except ConfigError as error:
        raise type(error)(f"{_named(latest, subject)}: {error}") from error


def _named(latest: RegisteredSchema, subject: str) -> str:
    version = "" if latest.version is None else f", version {latest.version}"
    return f"the latest schema of {subject!r}{version} (id {latest.id})"
