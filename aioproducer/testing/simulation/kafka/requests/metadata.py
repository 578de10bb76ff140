"""Metadata. Source: Kafka's ``KafkaApis.handleTopicMetadataRequest``, ``KRaftMetadataCache``."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import CLUSTER_ID, CONTROLLER, Topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition
from aioproducer.testing.simulation.kafka.requests.leaders import endpoints

_FIRST_WITH_TOPIC_ID_QUERIES = 12
_ALL_BY_NONE = 1
NO_AUTHORIZED_OPERATIONS = -(2**31)


def metadata(call: Call) -> Fields:
    """Brokers, and the asked topics with their leaders. Topics are not made by asking."""
    return {
        "brokers": endpoints(call, call.cluster.registered),
        "cluster_id": CLUSTER_ID,
        "controller_id": CONTROLLER,
        "error_code": ErrorCode.none,
        "topics": _topics(call),
        "cluster_authorized_operations": NO_AUTHORIZED_OPERATIONS,
    }


def _topics(call: Call) -> list[Fields]:
    asked = call.body.topics
    if asked is None or (not asked and call.version < _ALL_BY_NONE):
        return [_topic(call, topic) for topic in call.cluster.topics.values()]
    rows = []
    for each in asked:
        if call.injected:
            rows.append(_missing(each.name, getattr(each, "topic_id", None), call.injected))
            continue
        if each.name is None:
            topic_id = each.topic_id
            found = call.cluster.topic_by_id(topic_id)
            missing = ErrorCode.unknown_topic_id
        else:
            found = call.cluster.topics.get(str(each.name))
            topic_id = None
            missing = ErrorCode.unknown_topic_or_partition
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
        "error_code": ErrorCode.none,
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
        "error_code": ErrorCode.leader_not_available if leaderless else ErrorCode.none,
        "partition_index": partition.where.partition,
        "leader_id": shown.leader,
        "leader_epoch": shown.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": tuple(each for each in partition.replicas if each in shown.isr),
        "offline_replicas": tuple(
            each for each in partition.replicas if each not in call.cluster.registered
        ),
    }
