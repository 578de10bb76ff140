"""The reader that users hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import Any, Final, Self, Unpack, cast

from aioproducer.config import (
    ProducerConfig,
    ProducerOptions,
    ReaderKeywords,
    ReaderOptions,
    hidden_mapping,
    hide_secrets,
)
from aioproducer.config.reader_options import READER_OPTIONS
from aioproducer.engine.client.arguments import check_partition
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.elsewhere import FOR_A_READER, elsewhere
from aioproducer.engine.client.list_offsets import IsolationLevel
from aioproducer.engine.client.options import client_config
from aioproducer.engine.records.arrow_output import imported_pyarrow
from aioproducer.engine.records.decoder import RecordBatch
from aioproducer.errors import (
    ConfigError,
    IllegalStateError,
)
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader.fetcher import Fetcher, FetchSettings
from aioproducer.reader.iteration import Steps
from aioproducer.reader.leaders import Leaders
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.positions import Assignment, Position, assigned, checked_position
from aioproducer.reader.record_source import RecordSource
from aioproducer.reader.start import find_beyond, find_offsets, find_partitions

_NUMBERS: Final = count(1)
_MOST_ARROW_BYTES: Final = 64 * 1024 * 1024
"""Uncompressed bytes from which on a batch of Arrow takes no more."""
_LONGEST_TURN: Final = 0.002
"""Seconds for which batches that are there are handed out before other tasks have a turn."""


class _Arguments(ProducerOptions, ReaderKeywords):
    """The keywords of a Reader."""


@elsewhere(**FOR_A_READER)
class Reader:
    """Reads the records of topics and partitions in an event loop, without a group.

    ::

        async with Reader("orders", bootstrap_servers="localhost:9092", end="end") as reader:
            async for record in reader:
                print(record.offset, record.value)

    ``assignment``: a topic (all of its partitions, as they are at the start), a TopicPartition,
    several of both, or a mapping of each TopicPartition to its offset, such as :attr:`positions`.

    ``start`` is the first position to read, ``end`` the first one that is not read any more: an
    offset, a negative offset that counts from the end of the log, a datetime, ``"beginning"`` or
    ``"end"``. The end of the log is its end at the start of the reader. Without ``end`` the reader
    waits for new records. With ``read_committed`` the log ends at its last stable offset.

    Records of a partition come in their order, those of several partitions as they arrive. One task
    reads at a time. A read that is cancelled loses nothing, and an error of a partition does not
    end the reader: the next read tries again.

    Options are a producer's for connections and logins, as keywords or as a ``config`` that they
    override, and a consumer's for fetching (:class:`~aioproducer.config.ReaderOptions`).

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
        InvalidTopicError: a topic's name is illegal.
    """

    def __init__(
        self,
        assignment: Assignment,
        config: ProducerConfig | None = None,
        /,
        *,
        start: Position = "beginning",
        end: Position | None = None,
        **options: Unpack[_Arguments],
    ) -> None:
        given = cast("dict[str, Any]", options)
        own = {name: given.pop(name) for name in READER_OPTIONS.keys() & given.keys()}
        hide_secrets(given)
        config = hidden_mapping(config)
        self._options = ReaderOptions(**own)
        self._assigned = assigned(assignment, checked_position("start", start))
        self._end = None if end is None else checked_position("end", end)
        self.config: ProducerConfig = client_config(config, given, "Reader", also=("client_rack",))
        if self._options.fetch_max_wait_ms >= self.config.request_timeout_ms:
            raise ConfigError("fetch_max_wait_ms has to be less than request_timeout_ms")
        self.client_id: str = self.config.client_id or f"reader-{next(_NUMBERS)}"
        self._client = ClusterClient(self.config, self.client_id, "Reader")
        self._source: RecordSource | None = None

    def __repr__(self) -> str:
        return f"<Reader {getattr(self, 'client_id', 'that is being made')!r}>"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, find the partitions and their positions, and begin to read ahead.

        Takes ``max_block_ms`` at most, after ``bootstrap_resolve_timeout_ms`` at most.

        Raises:
            IllegalStateError: the reader was started before.
            UnknownTopicOrPartitionError: there is no such topic or partition.
            BootstrapError: no broker answered, or no name could be resolved.
        """
        await self._client.start()
        try:
            fetcher = await self._make_fetcher()
        except BaseException:
            await self._client.close()
            raise
        self._source = RecordSource(self._client, fetcher, self._options.max_batch_bytes, "Reader")
        self._client.start_task(fetcher.run(), "aioproducer-reader")

    async def _make_fetcher(self) -> Fetcher:
        timeout = self._timeout
        cluster, starts = await find_partitions(self._client, self._assigned, timeout)
        isolation = self._isolation
        offsets = await find_offsets(self._client, starts, isolation, timeout)
        ends: dict[TopicPartition, int] = {}
        if self._end is not None:
            wanted = dict.fromkeys(starts, self._end)
            ends = await find_offsets(self._client, wanted, isolation, timeout)
        beyond = await find_beyond(self._client, offsets, ends, timeout)
        states = []
        for where, offset in offsets.items():
            state = PartitionState(where, offset, ends.get(where))
            state.from_beginning = starts[where] == "beginning"
            state.in_log = where not in beyond
            states.append(state)
        leaders = Leaders(dict.fromkeys(each.topic for each in self._assigned))
        leaders.take(cluster)
        settings = FetchSettings.of(self._options, self.config)
        return Fetcher(self._client, states, leaders, settings)

    @property
    def _timeout(self) -> float:
        return self.config.max_block_ms / 1000

    @property
    def _isolation(self) -> IsolationLevel:
        return IsolationLevel[self._options.isolation_level.upper()]

    async def close(self) -> None:
        """End every connection; a read that waits fails with :class:`ClientClosedError`."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- reading ---------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """The records, one by one."""
        return self._started().records()

    def batches(self) -> AsyncIterator[RecordBatch]:
        """The records as they were written, batch by batch.

        A batch whose records are before the start or behind the end has the others alone.
        """
        return Steps(self._started().next_batch)

    def arrow_batches(self, max_rows: int = 65_536) -> AsyncIterator[Any]:
        """The records as ``pyarrow.RecordBatch``, as ``send_many()`` takes them.

        One has the records of one topic that are there, up to about ``max_rows``: a batch is not
        cut. The columns are those of :meth:`RecordBatch.to_arrow`.

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
        """The partitions that are read."""
        return tuple(self._started().fetcher.partitions)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of each partition's next record: the assignment of a reader that goes on."""
        return self._started().positions

    @property
    def high_watermarks(self) -> dict[TopicPartition, int | None]:
        """The end of each partition as of the last response; None: there was none yet."""
        partitions = self._started().fetcher.partitions
        return {where: each.high_watermark for where, each in partitions.items()}

    async def seek(self, partition: TopicPartition, position: Position) -> None:
        """Read ``partition`` from another position on.

        Raises:
            ConfigError: it is no position, or the partition is not assigned.
            ProducerTimeoutError: the position was not found within ``max_block_ms``.
        """
        self._client.check_usable()
        source = self._started()
        fetcher = source.fetcher
        where = TopicPartition(*partition)
        check_partition(where.partition, where.topic)
        if where not in fetcher.partitions:
            raise ConfigError(f"{where} is not assigned to this Reader")
        wanted = {where: checked_position("position", position)}
        offsets = await find_offsets(self._client, wanted, self._isolation, self._timeout)
        ends = {where: fetcher.partitions[where].end}
        beyond = await find_beyond(self._client, offsets, ends, self._timeout)
        source.cursor.leave(where)
        fetcher.seek(where, offsets[where], in_log=where not in beyond)

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """The end of each partition now: its last stable offset with ``read_committed``."""
        self._client.check_usable()
        wanted = dict.fromkeys(self.partitions, "end")
        return await find_offsets(self._client, wanted, self._isolation, self._timeout)  # type: ignore[arg-type]

    async def beginning_offsets(self) -> dict[TopicPartition, int]:
        """The first offset of each partition now."""
        self._client.check_usable()
        wanted = dict.fromkeys(self.partitions, "beginning")
        return await find_offsets(self._client, wanted, self._isolation, self._timeout)  # type: ignore[arg-type]
