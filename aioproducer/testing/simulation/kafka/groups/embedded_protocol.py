"""The data that members of the classic protocol exchange, which only a migration reads.

Source: Kafka's ``ConsumerProtocol``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aioproducer.engine.protocol import data_schema
from aioproducer.model import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION: Final = "consumer_protocol_subscription"
_ASSIGNMENT: Final = "consumer_protocol_assignment"
_NEWEST: Final = 3
_VERSION_BYTES: Final = 2


class MalformedError(ValueError):
    """The bytes are none of Kafka's consumers."""


class Subscribed(NamedTuple):
    """The subscription of a member."""

    topics: tuple[str, ...]
    owned: list[TopicPartition]


def subscription_in(data: bytes) -> Subscribed:
    """Raises MalformedError."""
    said = _decoded(_SUBSCRIPTION, data)
    return Subscribed(tuple(said.topics), _places(said.owned_partitions))


def assignment_in(data: bytes) -> list[TopicPartition]:
    """The partitions of an assignment; no bytes are those of a member without one.

    Raises MalformedError.
    """
    if not data:
        return []
    said = _decoded(_ASSIGNMENT, data)
    if said.user_data:
        raise MalformedError("an assignor of the client's own has something else to tell")
    return _places(said.assigned_partitions)


def assignment_for(subscription: bytes, partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment in the version that a member speaks."""
    version = _version(subscription)
    numbers: dict[str, list[int]] = {}
    for each in partitions:
        numbers.setdefault(each.topic, []).append(each.partition)
    rows = [{"topic": topic, "partitions": found} for topic, found in numbers.items()]
    schema = data_schema(_ASSIGNMENT)
    said = schema.of({"assigned_partitions": rows}, version)
    return version.to_bytes(_VERSION_BYTES, "big") + schema.encode(said, version)


def _decoded(name: str, data: bytes) -> Any:
    version = _version(data)
    try:
        said, _ = data_schema(name).decode(data, _VERSION_BYTES, version)
    except Exception as error:
        raise MalformedError(f"{len(data)} bytes of version {version}") from error
    return said


def _places(rows: Iterable[Any]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in rows for number in each.partitions]


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0 or len(data) < _VERSION_BYTES:
        raise MalformedError(f"{len(data)} bytes without a version")
    return min(version, _NEWEST)
