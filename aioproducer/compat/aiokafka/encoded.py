"""The way of a caller's batch into the core: as a whole, or else record by record."""

from __future__ import annotations

from aioproducer.compat.aiokafka.results import BatchToken, RecordFuture
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.records.acceleration import RecordsBuilder
from aioproducer.engine.records.reader import read_records


def send_encoded(
    core: ProducerCore, topic: str, partition: int, encoded: RecordsBuilder, future: RecordFuture
) -> None:
    """Send the records of ``encoded``, in order; ``future`` gets the outcome of all.

    They are one batch of the core, unless records of the partition wait for memory or metadata, or
    there is too little memory for all of them at once.
    """
    token = BatchToken(future, encoded.count)
    sent_ns = core.wall_clock_ns()
    if not core.hooks and core.engine.send_encoded(topic, partition, encoded, token.all(), sent_ns):
        return
    for timestamp_ms, key, value, headers in read_records(encoded):
        fields = (topic, value, key, partition, headers or None, timestamp_ms)
        core.pipeline.put(fields, token, over_capacity=True, sent_ns=sent_ns)
