"""The requests that brokers answer: versions and handlers. ApiVersions lists no others.

The versions are those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from aioproducer.testing.simulation.kafka.calls import Answer, Call, Handler
from aioproducer.testing.simulation.kafka.requests import (
    configs,
    coordinators,
    group_offsets,
    groups,
    logins,
    offsets,
    topics,
    transactions,
    versions,
)
from aioproducer.testing.simulation.kafka.requests.fetch import fetch
from aioproducer.testing.simulation.kafka.requests.metadata import metadata
from aioproducer.testing.simulation.kafka.requests.produce import produce


class Api(NamedTuple):
    """A kind of request."""

    lowest: int
    highest: int
    handler: Handler


def _api_versions(call: Call) -> Answer:
    return versions.api_versions(call, RANGES)


API_VERSIONS: Final = 18
APIS: Final[Mapping[int, Api]] = {
    0: Api(0, 13, produce),  # versions before 3 are named and not answered (KIP-896)
    1: Api(4, 18, fetch),
    2: Api(1, 11, offsets.list_offsets),
    3: Api(0, 13, metadata),
    8: Api(2, 10, group_offsets.offset_commit),
    9: Api(1, 10, group_offsets.offset_fetch),
    10: Api(0, 6, coordinators.find_coordinator),
    15: Api(0, 6, groups.describe_groups),
    16: Api(0, 5, groups.list_groups),
    logins.SASL_HANDSHAKE: Api(0, 1, logins.sasl_handshake),
    API_VERSIONS: Api(0, 4, _api_versions),
    19: Api(2, 7, topics.create_topics),
    20: Api(1, 6, topics.delete_topics),
    21: Api(0, 2, topics.delete_records),
    22: Api(0, 5, transactions.init_producer_id),
    23: Api(2, 4, offsets.offset_for_leader_epoch),
    24: Api(0, 3, transactions.add_partitions_to_txn),  # later ones are for brokers
    25: Api(0, 4, transactions.add_offsets_to_txn),
    26: Api(0, 5, transactions.end_txn),
    28: Api(0, 5, group_offsets.txn_offset_commit),
    32: Api(1, 4, configs.describe_configs),
    logins.SASL_AUTHENTICATE: Api(0, 2, logins.sasl_authenticate),
    37: Api(0, 3, topics.create_partitions),
    44: Api(0, 1, configs.incremental_alter_configs),
    69: Api(0, 1, groups.consumer_group_describe),
}
RANGES: Final[Mapping[int, tuple[int, int]]] = {
    key: (api.lowest, api.highest) for key, api in APIS.items()
}
