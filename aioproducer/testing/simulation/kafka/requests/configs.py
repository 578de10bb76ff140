"""DescribeConfigs of topics, IncrementalAlterConfigs of topics and groups, clients' telemetry.

Sources: Kafka's ``ConfigHelper``, ``ConfigurationControlManager``, ``ClientMetricsManager``.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import Topic
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.options import GROUP_DEFAULTS, TOPIC_DEFAULTS

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
