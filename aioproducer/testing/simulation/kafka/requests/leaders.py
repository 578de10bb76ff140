"""The partition that a request means, if the asked broker leads it."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import Topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import Partition


def topic_of(call: Call, each: Any) -> tuple[Topic | None, ErrorCode]:
    """The topic that a row of a request names, by its name or its id, and the error without it."""
    name = getattr(each, "topic", None) or getattr(each, "name", None)
    if not name:
        return call.cluster.topic_by_id(each.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return call.cluster.topics.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def led_partition(
    call: Call,
    topic: Topic,
    number: int,
    current_leader_epoch: int = -1,
    *,
    or_followed: bool = False,
) -> tuple[Partition | None, ErrorCode]:
    """The partition, and the error that a broker answers that doesn't lead it.

    ``or_followed``: followers are asked as well (KIP-392).

    Source: ``Partition.localLogWithEpochOrThrow``.
    """
    if not 0 <= number < len(topic.partitions):
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[number]
    if call.injected:
        return partition, call.injected
    if call.broker not in partition.replicas:
        return partition, ErrorCode.NOT_LEADER_OR_FOLLOWER
    if code := partition.epoch_error(current_leader_epoch):
        return partition, code
    if partition.leader != call.broker and not or_followed:
        return partition, ErrorCode.NOT_LEADER_OR_FOLLOWER
    return partition, ErrorCode.NONE


def current_leader(partition: Partition) -> Fields:
    """The leader that a client should ask (KIP-951)."""
    return {"leader_id": partition.leader, "leader_epoch": partition.leader_epoch}


def endpoints(call: Call, brokers: AbstractSet[int]) -> Sequence[Fields]:
    """The addresses of brokers that run."""
    rows = []
    for broker in sorted(brokers & call.cluster.registered):
        host, port = call.cluster.host(broker)
        rows.append({"node_id": broker, "host": host, "port": port, "rack": None})
    return rows
