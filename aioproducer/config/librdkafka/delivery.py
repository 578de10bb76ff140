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
_SERIAL: Final = "leave it out: records of a partition keep their order"

_BATCHES: Final = (
    mapped(
        "queue.buffering.max.ms linger.ms",
        "linger_ms",
        whole_milliseconds,
        "whole milliseconds; not set, it adapts",
    ),
    mapped("batch.size", "batch_size", note="not set, it adapts"),
    refused(
        "batch.num.messages",
        "give batch_size, in bytes; 0 is one record in each batch",
        instead="batch_size",
    ),
    mapped("queue.buffering.max.kbytes", "buffer_memory", kibibytes, "times 1,024"),
    refused(
        "queue.buffering.max.messages",
        "give buffer_memory, in bytes: no number of records is a bound here",
        harmless=("0",),
        instead="buffer_memory",
    ),
    refused("queue.buffering.backpressure.threshold", "leave it out: batches grow by themselves"),
    mapped("message.max.bytes", "max_request_size"),
    refused("message.copy.max.bytes", NO_EFFECT),
    mapped("compression.codec compression.type", "compression_type", codec),
    mapped(
        "compression.level",
        "compression_gzip_level compression_lz4_level compression_zstd_level",
        lambda value: {COMPRESSION_LEVEL: value},
        "the level of the codec that is set; LZ4's 0 is 9 here, its fast compressor",
    ),
)

_DELIVERY: Final = (
    mapped("request.required.acks acks", "acks", note="a number of replicas above 1 is refused"),
    mapped(
        "enable.idempotence",
        "enable_idempotence",
        flag("enable_idempotence"),
        "not set, it is on here, unless max.in.flight is above 5",
    ),
    mapped(
        "max.in.flight.requests.per.connection max.in.flight",
        "max_in_flight_requests_per_connection",
        note="above 5, idempotence is off unless it is set",
    ),
    mapped("message.send.max.retries retries", "retries"),
    mapped("retry.backoff.ms", "retry_backoff_ms"),
    mapped("retry.backoff.max.ms", "retry_backoff_max_ms"),
    mapped(
        "message.timeout.ms delivery.timeout.ms",
        "delivery_timeout_ms",
        special("delivery_timeout_ms", "0", INT_MAX),
        "0, which is infinite, is the largest number here; request_timeout_ms shrinks to fit",
    ),
    mapped(
        "request.timeout.ms",
        "request_timeout_ms",
        note="the brokers' and the client's time are one here: give socket.timeout.ms alone",
    ),
    refused(
        "enable.gapless.guarantee",
        "leave it out; a transaction is all or nothing",
        harmless=_FALSE,
    ),
    refused("queuing.strategy", _SERIAL, harmless=("fifo",)),
    refused("produce.offset.report", "leave it out: every future has the offset"),
)

_PARTITIONS: Final = (
    mapped(
        "partitioner",
        "partitioner",
        partitioner,
        "not set, it is 'consistent_random', as in librdkafka: the CRC-32 of the key",
    ),
    refused(
        "sticky.partitioning.linger.ms",
        "leave it out: the sticky partition changes after the bytes of a batch",
    ),
)

_TRANSACTIONS: Final = (
    mapped("transactional.id", "transactional_id"),
    mapped("transaction.timeout.ms", "transaction_timeout_ms"),
)

ROWS: Final = (*_BATCHES, *_DELIVERY, *_PARTITIONS, *_TRANSACTIONS)
