"""The requests that brokers answer, in the versions that there are tables for.

ApiVersions lists no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Handler
from aioproducer.testing.simulation.kafka.requests import (
    groups,
    logins,
    topics,
    transactions,
)
from aioproducer.testing.simulation.kafka.requests.fetch import (
    fetch,
    list_offsets,
    offset_for_leader_epoch,
)
from aioproducer.testing.simulation.kafka.requests.metadata import (
    api_versions,
    find_coordinator,
    metadata,
)
from aioproducer.testing.simulation.kafka.requests.produce import produce

_TELEMETRY: Final = (Api.GET_TELEMETRY_SUBSCRIPTIONS, Api.PUSH_TELEMETRY)
"""Brokers without a receiver of metrics do not list these."""


def _api_versions(call: Call) -> Answer:
    left_out = () if call.cluster.options.telemetry_interval_ms else _TELEMETRY
    return api_versions(call, {k: v for k, v in RANGES.items() if k not in left_out})


HANDLERS: Final[Mapping[int, Handler]] = {
    Api.PRODUCE: produce,
    Api.FETCH: fetch,
    Api.LIST_OFFSETS: list_offsets,
    Api.METADATA: metadata,
    Api.OFFSET_COMMIT: groups.offset_commit,
    Api.OFFSET_FETCH: groups.offset_fetch,
    Api.FIND_COORDINATOR: find_coordinator,
    Api.JOIN_GROUP: groups.join_group,
    Api.HEARTBEAT: groups.heartbeat,
    Api.LEAVE_GROUP: groups.leave_group,
    Api.SYNC_GROUP: groups.sync_group,
    Api.DESCRIBE_GROUPS: groups.describe_groups,
    Api.LIST_GROUPS: groups.list_groups,
    Api.DELETE_GROUPS: groups.delete_groups,
    Api.OFFSET_DELETE: groups.offset_delete,
    Api.SASL_HANDSHAKE: logins.sasl_handshake,
    Api.API_VERSIONS: _api_versions,
    Api.CREATE_TOPICS: topics.create_topics,
    Api.DELETE_TOPICS: topics.delete_topics,
    Api.DELETE_RECORDS: topics.delete_records,
    Api.INIT_PRODUCER_ID: transactions.init_producer_id,
    Api.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    Api.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    Api.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    Api.END_TXN: transactions.end_txn,
    Api.TXN_OFFSET_COMMIT: groups.txn_offset_commit,
    Api.DESCRIBE_CONFIGS: topics.describe_configs,
    Api.SASL_AUTHENTICATE: logins.sasl_authenticate,
    Api.CREATE_PARTITIONS: topics.create_partitions,
    Api.INCREMENTAL_ALTER_CONFIGS: topics.incremental_alter_configs,
    Api.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    Api.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    Api.GET_TELEMETRY_SUBSCRIPTIONS: topics.get_telemetry_subscriptions,
    Api.PUSH_TELEMETRY: topics.push_telemetry,
}
RANGES: Final[Mapping[int, tuple[int, int]]] = {api: SUPPORTED[Api(api)] for api in HANDLERS}
