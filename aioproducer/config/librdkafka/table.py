"""All options of librdkafka and confluent-kafka by their names, and those of consumers."""

from __future__ import annotations

from typing import Final

from aioproducer.config.librdkafka import delivery, general, security
from aioproducer.config.librdkafka.row import Row

__all__ = ["BY_NAME", "OF_CONSUMERS", "ROWS"]

ROWS: Final[tuple[Row, ...]] = (*general.ROWS, *delivery.ROWS, *security.ROWS)

BY_NAME: Final = {name: row for row in ROWS for name in row.names}
"""Aliases included."""

OF_CONSUMERS: Final = frozenset(
    {
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "consume.callback.max.messages",
        "consume_cb",
        "coordinator.query.interval.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "offset_commit_cb",
        "on_commit",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "rebalance_cb",
        "session.timeout.ms",
        "share.acknowledgement.mode",
        "value.deserializer",
    }
)
"""librdkafka's producer ignores these with a warning."""
