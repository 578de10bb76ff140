"""Lines on their way into batches, many in one call."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import add

from aioproducer.cli.delivery_counter import DeliveryCounter
from aioproducer.cli.lines import MissingKeyError, RecordFormat
from aioproducer.cli.record_outcomes import RecordOutcomes, Refused
from aioproducer.engine.bulk.column_writer import ColumnWriter
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.records.acceleration import BinaryColumn
from aioproducer.engine.records.columns import Columns
from aioproducer.model import Headers
from aioproducer.serialization import shared_headers

__all__ = ["LineSender"]


class LineSender:
    """Sends lines to one topic.

    ``refused`` gets the number of each line that can't be sent, with the reason. ``partition`` and
    ``headers`` are of all records.
    """

    def __init__(
        self,
        core: ProducerCore,
        topic: str,
        record_format: RecordFormat,
        partition: int | None,
        headers: Headers | None,
        deliveries: DeliveryCounter,
        refused: Refused,
    ) -> None:
        self._core = core
        self._topic = topic
        self._format = record_format
        self._partition = partition
        self._headers = None if headers is None else shared_headers(headers, topic)
        self._deliveries = deliveries
        self._refused = refused
        self._writer: ColumnWriter | None = None

    def stop(self) -> None:
        """Send none of the further lines of a :meth:`send` under way."""
        if self._writer is not None:
            self._writer.stop()

    async def send(self, lines: list[bytes], number: int) -> None:
        """Put lines into batches, in order; ``number``: of the first. The call waits for memory.

        Raises ProducerError if the producer has ended.
        """
        if self._format.is_plain:
            writer = self._write(number, list(map(len, lines)))
            await writer.write(self._topic, lines, self._partition, self._headers)
        elif (split := self._format.split(lines)) is not None:
            keys, values = split
            writer = self._write(number, list(map(add, map(len, keys), map(len, values))))
            columns = Columns(_column(values), _column(keys))
            await writer.write_columns(self._topic, columns, self._partition, self._headers)
        else:
            await self._send_pairs(lines, number)

    async def _send_pairs(self, lines: list[bytes], number: int) -> None:
        pairs = []
        missing: MissingKeyError | None = None
        for line in lines:
            try:
                pairs.append(self._format.parse(line))
            except MissingKeyError as error:
                missing = error
                break
        sizes = [len(key or b"") + len(value or b"") for key, value in pairs]
        writer = self._write(number, sizes)
        await writer.write_pairs(self._topic, pairs, self._partition, self._headers)
        if missing is not None and not writer.stopped:
            self._refused(number + len(pairs), missing)

    def _write(self, number: int, sizes: Sequence[int]) -> ColumnWriter:
        outcomes = RecordOutcomes(self._deliveries, self._refused, number, sizes)
        self._writer = ColumnWriter(self._core, outcomes)
        return self._writer


def _column(fields: list[bytes]) -> BinaryColumn:
    offsets = array("q", accumulate(map(len, fields), initial=0))
    return BinaryColumn(None, offsets, b"".join(fields), 0, len(fields), wide=True)
