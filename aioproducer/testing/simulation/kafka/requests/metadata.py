"""Metadata, FindCoordinator and ApiVersions: where things are, and what brokers understand.

Sources: Kafka's ``KafkaApis.handleTopicMetadataRequest``, ``KRaftMetadataCache``,
``KafkaApis.handleFindCoordinatorRequest``, ``ApiVersionsResponse`` and ``BrokerFeatures``.
Handlers of other requests find here the partition that a request means, if the asked broker leads
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import (
    CONTROLLER,
    GROUPS_TOPIC,
    TRANSACTIONS_TOPIC,
    Topic,
)
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition


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


NO_AUTHORIZED_OPERATIONS = -(2**31)


def metadata(call: Call) -> Fields:
    """Brokers, and the asked topics with their leaders. Topics are not made by asking."""
    return {
        "brokers": endpoints(call, call.cluster.registered),
        "cluster_id": call.cluster.id,
        "controller_id": CONTROLLER,
        "error_code": ErrorCode.NONE,
        "topics": _topics(call),
        "cluster_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def _topics(call: Call) -> list[Fields]:
    asked = call.body.topics
    if asked is None:
        return [_topic(call, topic) for topic in call.cluster.topics.values()]
    rows = []
    for each in asked:
        if call.injected:
            rows.append(_missing(each.name, each.topic_id, call.injected))
            continue
        if each.name is None:
            topic_id = each.topic_id
            found = call.cluster.topic_by_id(topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found = call.cluster.topics.get(str(each.name))
            topic_id = None
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        rows.append(
            _missing(each.name, topic_id, missing) if found is None else _topic(call, found)
        )
    return rows


def _missing(name: str | None, topic_id: UUID | None, code: ErrorCode) -> Fields:
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def _topic(call: Call, topic: Topic) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [_partition(call, each) for each in topic.partitions],
        "topic_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def _partition(call: Call, partition: Partition) -> Fields:
    shown = partition.shown_by(call.broker, call.now)
    leaderless = shown.leader == NO_LEADER
    return {
        "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        "partition_index": partition.where.partition,
        "leader_id": shown.leader,
        "leader_epoch": shown.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": tuple(each for each in partition.replicas if each in shown.isr),
        "offline_replicas": tuple(
            each for each in partition.replicas if each not in call.cluster.registered
        ),
    }


_FIRST_OF_MANY: Final = 4
_TOPICS: Final = {0: GROUPS_TOPIC, 1: TRANSACTIONS_TOPIC}


def find_coordinator(call: Call) -> Fields:
    """The brokers that coordinate groups (key type 0) or transactions (1)."""
    body = call.body
    key_type = body.key_type
    if call.version < _FIRST_OF_MANY:
        found = dict(_found(call, key_type, str(body.key)))
        del found["key"]
        return found
    return {"coordinators": [_found(call, key_type, str(key)) for key in body.coordinator_keys]}


def _found(call: Call, key_type: int, key: str) -> Fields:
    code = call.injected or ErrorCode.INVALID_REQUEST
    if not call.injected and (topic := _TOPICS.get(key_type)) is not None:
        leader = call.cluster.coordinator_partition(topic, key).leader
        if leader in call.cluster.registered:
            host, port = call.cluster.host(leader)
            return {
                "key": key,
                "node_id": leader,
                "host": host,
                "port": port,
                "error_code": ErrorCode.NONE,
                "error_message": "",
            }
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": "",
    }


def api_versions(call: Call, ranges: Mapping[int, tuple[int, int]]) -> Fields:
    """The versions of all requests, and the features of the cluster.

    A logged-in client that means another broker gets an error (KIP-1242).
    """
    meant = call.body.cluster_id, call.body.node_id
    logged_in = call.login.authenticated or not call.login.required
    if logged_in and meant[0] is not None and meant != (call.cluster.id, call.broker):
        return {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}
    level = call.cluster.options.transaction_version
    return {
        "error_code": ErrorCode.NONE,
        "api_keys": ranges_of(ranges),
        "supported_features": [
            {"name": "transaction.version", "min_version": 0, "max_version": 2},
        ],
        "finalized_features_epoch": 1,
        "finalized_features": [
            {
                "name": "transaction.version",
                "max_version_level": level,
                "min_version_level": level,
            }
        ],
        "zk_migration_ready": False,
    }


def ranges_of(ranges: Mapping[int, tuple[int, int]]) -> list[Fields]:
    """The rows of a response."""
    return [
        {"api_key": api, "min_version": low, "max_version": high}
        for api, (low, high) in sorted(ranges.items())
    ]
