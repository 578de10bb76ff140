"""Metadata. Source: Kafka's ``KafkaApis.handleTopicMetadataRequest``, ``KRaftMetadataCache``."""

from __future__ import annotations

from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import CONTROLLER, Topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition
from aioproducer.testing.simulation.kafka.requests.leaders import endpoints

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
