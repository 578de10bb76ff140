"""The reader of topics and partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Self, Unpack, cast

from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.config.reader_options import READER_OPTIONS, ReaderKeywords, ReaderOptions
from aioproducer.engine.client.arguments import check_partition
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.elsewhere import FOR_A_READER, client_config, elsewhere
from aioproducer.engine.records.arrow import imported_pyarrow
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import ClientClosedError, ConfigError, IllegalStateError
from aioproducer.foundation.codecs import load_codecs
from aioproducer.foundation.runtime.tasks import in_turns
from aioproducer.model import AnyRecord, ConsumerRecord, TopicPartition
from aioproducer.model.type_parameters import ReadKey, ReadValue
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.positions import (
    Assignment,
    Position,
    assigned,
    checked_position,
    find_beyond,
    find_offsets,
    find_partitions,
)
from aioproducer.reader.record_source import (
    DESERIALIZERS,
    Records,
    RecordSource,
    Steps,
    deserializers_of,
)

if TYPE_CHECKING:
    from aioproducer.model.type_parameters import DeserializerOf
    from aioproducer.serialization.primitives import (
        DeserializationErrorCallback,
        RecordDeserializers,
    )

_NUMBERS: Final = count(1)
_AT_ONCE: Final = 1_000
"""Partitions that begin in one turn of the event loop. Each takes some microseconds."""


class _Arguments(ProducerOptions, ReaderKeywords):
    """The keywords of a Reader."""


@elsewhere(**FOR_A_READER)
class Reader(Generic[ReadKey, ReadValue]):
    """Reads the records of topics and partitions on an event loop, without a group.

    ::

        async with Reader("orders", bootstrap_servers="localhost:9092", end="end") as reader:
            async for record in reader:
                print(record.offset, record.value)

    ``assignment``: a topic (all partitions that it has at the start), a TopicPartition, an iterable
    of both, or a mapping from TopicPartitions to offsets, such as :attr:`positions`.

    ``start`` is the first position to read, and ``end`` the first position not to read: an offset,
    a negative offset (counted from the end of the log), a datetime, ``"beginning"`` or ``"end"``.
    ``"end"`` means the end of the log when the reader starts. Without ``end`` the reader waits for
    new records. With ``read_committed`` the log ends at its last stable offset.

    Records of a partition come in order; records of different partitions come as they arrive. Only
    one task can read at a time. A cancelled read loses nothing. An error of a partition does not
    stop the reader: the next read tries again.

    ``key_deserializer``, ``value_deserializer`` and ``on_deserialization_error``: see
    :class:`aioproducer.consumer.Consumer`. :meth:`batches` and :meth:`arrow_batches` return bytes.

    Options are a producer's options for connections and logins, as keywords or as a ``config`` that
    the keywords override, and a consumer's options for fetching
    (:class:`~aioproducer.config.ReaderOptions`).

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
        InvalidTopicError: a topic name is invalid.
    """

    def __init__(
        self,
        assignment: Assignment,
        config: ProducerConfig | None = None,
        /,
        *,
        start: Position = "beginning",
        end: Position | None = None,
        key_deserializer: DeserializerOf[ReadKey] | None = None,
        value_deserializer: DeserializerOf[ReadValue] | None = None,
        on_deserialization_error: DeserializationErrorCallback | None = None,
        **options: Unpack[_Arguments],
    ) -> None:
        given = cast("dict[str, Any]", options)
        own = {name: given.pop(name) for name in READER_OPTIONS.keys() & given.keys()}
        hide_secrets(given)
        config = hidden_mapping(config)
        self._options = ReaderOptions(**own)
        self._assigned = assigned(assignment, checked_position("start", start))
        self._end = None if end is None else checked_position("end", end)
        self.config: ProducerConfig = client_config(
            config, given, "Reader", ("client_rack",), {*READER_OPTIONS, *DESERIALIZERS}
        )
        self._settings = FetchSettings.of(self._options, self.config)
        self.client_id: str = self.config.client_id or f"reader-{next(_NUMBERS)}"
        self._client = ClusterClient(self.config, self.client_id, "Reader")
        self._client.loads = (load_codecs,)
        self._source: RecordSource | None = None
        self._deserializers = deserializers_of(
            key_deserializer, value_deserializer, on_deserialization_error
        )

    def __repr__(self) -> str:
        return f"<Reader {getattr(self, 'client_id', 'that is being made')!r}>"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, find the partitions and their positions, and start to read ahead.

        This takes at most ``bootstrap_resolve_timeout_ms``, and then at most ``max_block_ms``.

        Raises:
            IllegalStateError: the reader has already been started.
            ConfigError: a file of the ``ssl_`` options can't be read or used.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
            BootstrapError: no broker answered, or no name could be resolved.
        """
        await self._client.start(self.close)
        try:
            fetcher = await self._make_fetcher()
        except BaseException:
            await self._client.close()
            raise
        self._source = RecordSource(self._client, fetcher, self._options.max_batch_bytes, "Reader")
        self._client.start_task(fetcher.run(), "aioproducer-reader")

    async def _make_fetcher(self) -> Fetcher:
        timeout = self._settings.lookup_timeout
        cluster, starts = await find_partitions(self._client, self._assigned, timeout)
        offsets = await self._offsets(starts)
        ends: dict[TopicPartition, int] = {}
        if self._end is not None:
            ends = await self._offsets(dict.fromkeys(starts, self._end))
        beyond = await find_beyond(self._client, offsets, ends, timeout)
        states = []
        for number, (where, offset) in enumerate(offsets.items(), start=1):
            state = PartitionState(where, offset, ends.get(where))
            state.from_beginning = starts[where] == "beginning"
            state.in_log = where not in beyond
            states.append(state)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        leaders = Leaders(dict.fromkeys(each.topic for each in self._assigned))
        await in_turns(leaders.taking(cluster, self._client.clock()))
        fetcher = Fetcher(self._client, states, leaders, self._settings)

        def left(_: str) -> bool:
            fetcher.leave_cluster()
            return True

        self._client.on_another_cluster = left
        return fetcher

    async def _offsets(
        self, wanted: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, int]:
        settings = self._settings
        return await find_offsets(self._client, wanted, settings.isolation, settings.lookup_timeout)

    async def close(self) -> None:
        """Close all connections. A waiting read fails with :class:`ClientClosedError`.

        The brokers end the reader's fetch sessions (KIP-227), which takes at most a second.
        """
        if self._source is None or self._client.has_ended:
            await self._client.close()
            return
        self._client.check_usable()  # not in another process, or on another loop
        self._source.fetcher.fail(ClientClosedError("the Reader is closed; make a new one"))
        try:
            await self._source.fetcher.end()
        finally:
            await self._client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- reading ---------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]:
        """Iterate over the records one by one."""
        source = self._started()
        records: Any = source.records()
        if self._deserializers is not None:
            records = Steps(partial(_with_objects, source, records, self._deserializers))
        return cast("AsyncIterator[ConsumerRecord[ReadKey, ReadValue]]", records)

    def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over the records batch by batch, as they were written.

        Records of a batch before the start or after the end are omitted.
        """
        return Steps(self._started().next_batch)

    def arrow_batches(self, max_rows: int = 65_536) -> AsyncIterator[Any]:
        """Iterate over the records as ``pyarrow.RecordBatch`` objects, which ``send_many()``
        accepts.

        Each contains the available records of one topic, up to about ``max_rows``, because batches
        are not split. The columns are those of :meth:`RecordBatch.to_arrow`.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        imported_pyarrow()
        return Steps(partial(self._started().next_arrow_batch, max_rows))

    def _started(self) -> RecordSource:
        if self._source is None:
            self._client.check_usable()
            raise IllegalStateError("the Reader has not finished its start")
        return self._source

    # --- positions -------------------------------------------------------------------------

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions being read."""
        return tuple(self._started().fetcher.partitions)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of each partition's next record. Pass it to a new reader to continue."""
        return self._started().positions

    @property
    def high_watermarks(self) -> dict[TopicPartition, int | None]:
        """The end of each partition in the last response; None: no response yet."""
        partitions = self._started().fetcher.partitions
        return {where: each.high_watermark for where, each in partitions.items()}

    async def seek(self, partition: TopicPartition, position: Position) -> None:
        """Continue reading ``partition`` from another position.

        Raises:
            ConfigError: the position is invalid, or the partition is not assigned.
            ProducerTimeoutError: the position was not found within ``max_block_ms``.
        """
        self._client.check_usable()
        source = self._started()
        fetcher = source.fetcher
        where = TopicPartition(*partition)
        check_partition(where.partition, where.topic)
        if where not in fetcher.partitions:
            raise ConfigError(f"{where} is not assigned to this Reader")
        offsets = await self._offsets({where: checked_position("position", position)})
        ends = {where: fetcher.partitions[where].end}
        beyond = await find_beyond(self._client, offsets, ends, self._settings.lookup_timeout)
        source.cursor.leave(where)
        fetcher.seek(where, offsets[where], in_log=where not in beyond)

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """Return the current end of each partition: with ``read_committed``, its last stable
        offset."""
        self._client.check_usable()
        return await self._offsets(dict.fromkeys(self.partitions, "end"))

    async def beginning_offsets(self) -> dict[TopicPartition, int]:
        """Return the current first offset of each partition."""
        self._client.check_usable()
        return await self._offsets(dict.fromkeys(self.partitions, "beginning"))


async def _with_objects(
    source: RecordSource, records: Records, deserializers: RecordDeserializers
) -> AnyRecord | None:
    """The next record with objects; None: there is none. One that fails comes again."""
    found = None
    while found is None:
        record = await anext(records, None)
        if record is None:
            return None
        try:
            found = await deserializers.record(record)
        except BaseException:
            if source.cursor.last is record:  # else the position was moved
                source.return_to(record.topic_partition, record.offset)
            raise
    return found
