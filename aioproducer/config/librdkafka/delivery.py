"""The options of librdkafka for batches, delivery, partitions and transactions."""

from __future__ import annotations

from typing import Final

from aioproducer.config.kinds import INT_MAX
from aioproducer.config.librdkafka.row import COMPRESSION_LEVEL, NO_EFFECT, mapped, refused
from aioproducer.config.librdkafka.values import (
    codec,
    flag,
    kibibytes,
    partitioner,
    special,
    whole_milliseconds,
)

__all__ = ["ROWS"]

_FALSE: Final = ("false", "f", "0")
_SERIAL: Final = "omit it: records of a partition keep their order"

_BATCHES: Final = (
    mapped(
        "queue.buffering.max.ms linger.ms",
        "linger_ms",
        whole_milliseconds,
        "whole milliseconds; adapts by default",
    ),
    mapped("batch.size", "batch_size", note="not set, it adapts"),
    refused(
        "batch.num.messages",
        "use batch_size, in bytes; 0 sends each record in its own batch",
        instead="batch_size",
    ),
    mapped("queue.buffering.max.kbytes", "buffer_memory", kibibytes, "times 1,024"),
    refused(
        "queue.buffering.max.messages",
        "use buffer_memory, in bytes: the number of records is not limited here",
        harmless=("0",),
        instead="buffer_memory",
    ),
    refused("queue.buffering.backpressure.threshold", "omit it: batches grow automatically"),
    mapped("message.max.bytes", "max_request_size"),
    refused("message.copy.max.bytes", NO_EFFECT),
    mapped("compression.codec compression.type", "compression_type", codec),
    mapped(
        "compression.level",
        "compression_gzip_level compression_lz4_level compression_zstd_level",
        lambda value: {COMPRESSION_LEVEL: value},
        "the level of the chosen codec; LZ4's 0 is 9 here, its fast compressor",
    ),
)

_DELIVERY: Final = (
    mapped("request.required.acks acks", "acks", note="a number of replicas above 1 is refused"),
    mapped(
        "enable.idempotence",
        "enable_idempotence",
        flag("enable_idempotence"),
        "on by default here, unless max.in.flight is above 5",
    ),
    mapped(
        "max.in.flight.requests.per.connection max.in.flight",
        "max_in_flight_requests_per_connection",
        note="above 5, idempotence is off unless you set it",
    ),
    mapped("message.send.max.retries retries", "retries"),
    mapped("retry.backoff.ms", "retry_backoff_ms"),
    mapped("retry.backoff.max.ms", "retry_backoff_max_ms"),
    mapped(
        "message.timeout.ms delivery.timeout.ms",
        "delivery_timeout_ms",
        special("delivery_timeout_ms", "0", INT_MAX),
        "0 (infinite) becomes the largest number; request_timeout_ms shrinks to fit",
    ),
    mapped(
        "request.timeout.ms",
        "request_timeout_ms",
        note="the brokers' and the client's timeout are the same here: set only socket.timeout.ms",
    ),
    refused(
        "enable.gapless.guarantee",
        "omit it: a transaction is all or nothing",
        harmless=_FALSE,
    ),
    refused("queuing.strategy", _SERIAL, harmless=("fifo",)),
    refused("produce.offset.report", "omit it: every future gets its offset"),
)

_PARTITIONS: Final = (
    mapped(
        "partitioner",
        "partitioner",
        partitioner,
        "by default 'consistent_random', as in librdkafka: the CRC-32 of the key",
    ),
    refused(
        "sticky.partitioning.linger.ms",
        "omit it: the sticky partition changes after a full batch",
    ),
)

_TRANSACTIONS: Final = (
    mapped("transactional.id", "transactional_id"),
    mapped("transaction.timeout.ms", "transaction_timeout_ms"),
)

ROWS: Final = (*_BATCHES, *_DELIVERY, *_PARTITIONS, *_TRANSACTIONS)
