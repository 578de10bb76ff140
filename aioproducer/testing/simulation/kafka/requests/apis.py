"""The requests that brokers answer, in the versions that there are tables for.

ApiVersions lists no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Handler
from aioproducer.testing.simulation.kafka.requests import (
    configs,
    coordinators,
    group_offsets,
    groups,
    logins,
    members,
    offsets,
    topics,
    transactions,
    versions,
)
from aioproducer.testing.simulation.kafka.requests.consumer_members import (
    consumer_group_heartbeat,
)
from aioproducer.testing.simulation.kafka.requests.fetch import fetch
from aioproducer.testing.simulation.kafka.requests.metadata import metadata
from aioproducer.testing.simulation.kafka.requests.produce import produce

_TELEMETRY: Final = (Api.GET_TELEMETRY_SUBSCRIPTIONS, Api.PUSH_TELEMETRY)
"""Brokers without a receiver of metrics do not list these."""


def _api_versions(call: Call) -> Answer:
    left_out = () if call.cluster.options.telemetry_interval_ms else _TELEMETRY
    return versions.api_versions(call, {k: v for k, v in RANGES.items() if k not in left_out})


HANDLERS: Final[Mapping[int, Handler]] = {
    Api.PRODUCE: produce,
    Api.FETCH: fetch,
    Api.LIST_OFFSETS: offsets.list_offsets,
    Api.METADATA: metadata,
    Api.OFFSET_COMMIT: group_offsets.offset_commit,
    Api.OFFSET_FETCH: group_offsets.offset_fetch,
    Api.FIND_COORDINATOR: coordinators.find_coordinator,
    Api.JOIN_GROUP: members.join_group,
    Api.HEARTBEAT: members.heartbeat,
    Api.LEAVE_GROUP: members.leave_group,
    Api.SYNC_GROUP: members.sync_group,
    Api.DESCRIBE_GROUPS: groups.describe_groups,
    Api.LIST_GROUPS: groups.list_groups,
    Api.SASL_HANDSHAKE: logins.sasl_handshake,
    Api.API_VERSIONS: _api_versions,
    Api.CREATE_TOPICS: topics.create_topics,
    Api.DELETE_TOPICS: topics.delete_topics,
    Api.DELETE_RECORDS: topics.delete_records,
    Api.INIT_PRODUCER_ID: transactions.init_producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    Api.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    Api.END_TXN: transactions.end_txn,
    Api.TXN_OFFSET_COMMIT: group_offsets.txn_offset_commit,
    Api.DESCRIBE_CONFIGS: configs.describe_configs,
    Api.SASL_AUTHENTICATE: logins.sasl_authenticate,
    Api.CREATE_PARTITIONS: topics.create_partitions,
    Api.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    Api.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    Api.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    Api.GET_TELEMETRY_SUBSCRIPTIONS: configs.get_telemetry_subscriptions,
    Api.PUSH_TELEMETRY: configs.push_telemetry,
}
RANGES: Final[Mapping[int, tuple[int, int]]] = {api: SUPPORTED[Api(api)] for api in HANDLERS}
