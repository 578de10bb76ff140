"""Requests for topics and settings: their creation, deletion, description and change.

CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords, DescribeConfigs of topics,
IncrementalAlterConfigs of topics and groups, and clients' telemetry. Sources: Kafka's
``ReplicationControlManager``, ``ReplicaManager.deleteRecordsOnLocalLog``, ``ConfigHelper``,
``ConfigurationControlManager`` and ``ClientMetricsManager``.
"""

from __future__ import annotations

import re
from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import GROUP_DEFAULTS, TOPIC_DEFAULTS, Topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.metadata import led_partition, topic_of

_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
_BY_DEFAULT: Final = -1


def create_topics(call: Call) -> Fields:
    """New topics; the answer says what is wrong with each."""
    return {"topics": [_created(call, each) for each in call.body.topics]}


def _created(call: Call, asked: Any) -> Fields:
    options = call.cluster.options
    partitions, replicas = int(asked.num_partitions), int(asked.replication_factor)
    assigned = [list(each.broker_ids) for each in asked.assignments]
    if assigned:
        partitions, replicas = len(assigned), len(assigned[0])
    partitions = options.default_partitions if partitions == _BY_DEFAULT else partitions
    if replicas == _BY_DEFAULT:
        replicas = min(options.default_replicas, len(call.cluster.brokers))
    config = {each.name: each.value for each in asked.configs}
    name = str(asked.name)
    code = call.injected or _refused(call, name, partitions, replicas, config, assigned)
    row: dict[str, Any] = {
        "name": name,
        "topic_id": None,
        "error_code": code,
        "error_message": None,
        "topic_config_error_code": 0,
        "configs": None if code else [],
    }
    if code:
        return row
    if not call.body.validate_only:
        topic = call.cluster.create_topic(name, partitions, replicas, config, assigned=assigned)
        row["topic_id"] = topic.id
    return row | {"num_partitions": partitions, "replication_factor": replicas}


def _refused(
    call: Call,
    name: str,
    partitions: int,
    replicas: int,
    config: dict[str, str],
    assigned: list[list[int]],
) -> ErrorCode:
    if not _NAME.fullmatch(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if name in call.cluster.topics:
        return ErrorCode.TOPIC_ALREADY_EXISTS
    if partitions <= 0:
        return ErrorCode.INVALID_PARTITIONS
    if not 0 < replicas <= len(call.cluster.brokers):
        return ErrorCode.INVALID_REPLICATION_FACTOR
    if any(call.cluster.registered.isdisjoint(brokers) for brokers in assigned):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not config.keys() <= TOPIC_DEFAULTS.keys():
        return ErrorCode.INVALID_CONFIG
    return ErrorCode.NONE


def delete_topics(call: Call) -> Fields:
    """Topics by name, from version 6 on also by id."""
    rows = []
    asked = call.body.topic_names if call.body.topics is None else call.body.topics
    for each in asked:
        by_id = not isinstance(each, str) and each.name is None
        if by_id:
            found = call.cluster.topic_by_id(each.topic_id)
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found = call.cluster.topics.get(str(each if isinstance(each, str) else each.name))
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = call.injected or (ErrorCode.NONE if found else missing)
        row: dict[str, Any] = {"error_code": code, "error_message": None}
        if found is None:
            row["name"] = None if by_id else str(each if isinstance(each, str) else each.name)
            row["topic_id"] = each.topic_id if by_id else None
        else:
            row["name"], row["topic_id"] = found.name, found.id
            if not code:
                call.cluster.delete_topic(found)
                call.coordinators.groups.offsets.forget(found.name)
        rows.append(row)
    return {"responses": rows}


def create_partitions(call: Call) -> Fields:
    """More partitions for topics that exist."""
    rows = []
    for each in call.body.topics:
        topic = call.cluster.topics.get(str(each.name))
        code = call.injected
        if not code and topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not code and topic is not None:
            if each.count <= len(topic.partitions):
                code = ErrorCode.INVALID_PARTITIONS
            elif not call.body.validate_only:
                call.cluster.add_partitions(topic, each.count, len(topic.partitions[0].replicas))
        rows.append({"name": each.name, "error_code": code, "error_message": None})
    return {"results": rows}


def delete_records(call: Call) -> Fields:
    """Move the starts of logs."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_deleted(call, topic, each) for each in topic.partitions],
            }
            for topic in call.body.topics
        ]
    }


def _deleted(call: Call, asked: Any, each: Any) -> Fields:
    topic, code = topic_of(call, asked)
    low = -1
    if topic is not None:
        partition, code = led_partition(call, topic, each.partition_index)
        if partition is not None and not code:
            offset = partition.high_watermark if each.offset == -1 else each.offset
            if offset > partition.high_watermark:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            else:
                partition.delete_records(offset)
                low = partition.log.start_offset
    return {"partition_index": each.partition_index, "low_watermark": low, "error_code": code}


_TOPIC: Final = 2
_GROUP: Final = 32
_DYNAMIC_TOPIC: Final = 1
_DEFAULT: Final = 5
_SUBSCRIPTION: Final = 77
_MOST_TELEMETRY_BYTES: Final = 1_000_000
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_configs(call: Call) -> Fields:
    """The settings of topics; brokers show none."""
    rows = []
    for asked in call.body.resources:
        topic = call.cluster.topics.get(str(asked.resource_name))
        code = call.injected
        if not code and asked.resource_type == _TOPIC and topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        configs: list[Fields] = []
        if topic is not None and asked.resource_type == _TOPIC and not code:
            wanted = asked.configuration_keys
            names = sorted(topic.config if wanted is None else set(wanted) & topic.config.keys())
            configs = [_entry(topic, name) for name in names]
        rows.append(_about(asked, code) | {"configs": configs})
    return {"results": rows}


def _entry(topic: Topic, name: str) -> Fields:
    altered = name in topic.altered
    return {
        "name": name,
        "value": topic.config[name],
        "read_only": False,
        "config_source": _DYNAMIC_TOPIC if altered else _DEFAULT,
        "is_sensitive": False,
        "synonyms": [],
        "documentation": None,
    }


def incremental_alter_configs(call: Call) -> Fields:
    """Set, remove, or change lists of settings."""
    rows = []
    for asked in call.body.resources:
        if asked.resource_type == _GROUP:
            rows.append(_about(asked, call.injected or _alter_group(call, asked)))
            continue
        topic = call.cluster.topics.get(str(asked.resource_name))
        code = call.injected
        if not code and (topic is None or asked.resource_type != _TOPIC):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not code and any(each.name not in TOPIC_DEFAULTS for each in asked.configs):
            code = ErrorCode.INVALID_CONFIG
        if topic is not None and not code and not call.body.validate_only:
            for each in asked.configs:
                _alter(call, topic, each)
        rows.append(_about(asked, code))
    return {"responses": rows}


def _alter_group(call: Call, asked: Any) -> ErrorCode:
    if any(each.name not in GROUP_DEFAULTS for each in asked.configs):
        return ErrorCode.INVALID_CONFIG
    altered = call.cluster.altered_groups.setdefault(str(asked.resource_name), {})
    for each in asked.configs:
        if each.config_operation == _DELETE:
            altered.pop(each.name, None)
        else:
            altered[each.name] = each.value
    return ErrorCode.NONE


def _alter(call: Call, topic: Topic, change: Any) -> None:
    name = change.name
    parts = [each for each in topic.config[name].split(",") if each]
    match change.config_operation:
        case 0:
            topic.config[name] = change.value
        case 1:
            defaults = {**TOPIC_DEFAULTS, **call.cluster.options.topic_config}
            topic.config[name] = defaults[name]
        case 2:
            topic.config[name] = ",".join([*parts, change.value])
        case 3:
            topic.config[name] = ",".join(each for each in parts if each != change.value)
    if change.config_operation == _DELETE:
        topic.altered.discard(name)
    else:
        topic.altered.add(name)


def _about(asked: Any, code: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": None,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
    }


def get_telemetry_subscriptions(call: Call) -> Fields:
    """The subscription of a client, which keeps the instance id that it has."""
    instance = call.body.client_instance_id
    if not instance or not instance.int:
        instance = UUID(int=call.cluster.random.getrandbits(128), version=4)
    return {
        "error_code": call.injected,
        "client_instance_id": instance,
        "subscription_id": _SUBSCRIPTION,
        "accepted_compression_types": [0],
        "push_interval_ms": call.cluster.options.telemetry_interval_ms,
        "telemetry_max_bytes": _MOST_TELEMETRY_BYTES,
        "delta_temporality": True,
        "requested_metrics": [""],
    }


def push_telemetry(call: Call) -> Fields:
    """The metrics of a client have arrived."""
    call.cluster.pushes += not call.injected
    return {"error_code": call.injected}
