"""FindCoordinator. Source: Kafka's ``KafkaApis.handleFindCoordinatorRequest``."""

from __future__ import annotations

from typing import Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.cluster import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from aioproducer.testing.simulation.kafka.messages import Fields

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
