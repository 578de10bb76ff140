"""What consumers of committed records see, by confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

_QUERY: Final = 10.0
_LONGEST_SILENCE: Final = 60.0


class ReadError(Exception):
    """Brokers did not answer, or a partition has no end."""


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


def consumer(bootstrap_servers: str, group: str, **options: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **options,
        }
    )


def committed_offset(bootstrap_servers: str, group: str, place: Place, timeout: float) -> int:
    """0 where there is none; a transaction that holds it open is waited for. Raises ReadError."""
    asking = consumer(bootstrap_servers, group)
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                [found] = asking.committed([TopicPartition(*place)], _QUERY)
            except KafkaException as error:
                failure: object = error
            else:
                if found.error is None:
                    return max(found.offset, 0)
                failure = found.error
            if time.monotonic() > deadline:
                raise ReadError(f"no committed offset of {group} for {place}: {failure}")
    finally:
        asking.close()


def ends(
    bootstrap_servers: str, places: Collection[Place], isolation: IsolationLevel
) -> dict[Place, int]:
    """The end of each log, or its last stable offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(
        {TopicPartition(*place): latest for place in places},
        isolation_level=isolation,
        request_timeout=_QUERY,
    )
    return {
        Place(place.topic, place.partition): future.result(2 * _QUERY).offset
        for place, future in futures.items()
    }


def nothing_is_open(bootstrap_servers: str, places: Collection[Place]) -> bool:
    """Whether every transaction in these partitions has its end."""
    uncommitted = ends(bootstrap_servers, places, IsolationLevel.READ_UNCOMMITTED)
    return ends(bootstrap_servers, places, IsolationLevel.READ_COMMITTED) == uncommitted


def read_to_end(
    bootstrap_servers: str, places: Collection[Place], **options: Any
) -> Iterator[tuple[Place, bytes]]:
    """Each partition to its end, or to its first open transaction. Raises ReadError."""
    at_once = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
    reading = consumer(bootstrap_servers, "never-used", **{**at_once, **options})
    reading.assign([TopicPartition(*place, 0) for place in places])
    left = set(places)
    deadline = time.monotonic() + _LONGEST_SILENCE
    try:
        while left:
            messages = reading.consume(10_000, 0.02)
            if messages:
                deadline = time.monotonic() + _LONGEST_SILENCE
            elif time.monotonic() > deadline:
                raise ReadError(f"nothing came for {_LONGEST_SILENCE:g} s, wanted are {left}")
            for message in messages:
                place = Place(message.topic() or "", message.partition() or 0)
                error, value = message.error(), message.value()
                if error is None and isinstance(value, bytes):
                    yield place, value
                elif error is None:
                    raise ReadError(f"{place}: a record without a value")
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(place)
                else:
                    raise ReadError(f"{place}: {error}")
    finally:
        reading.close()
