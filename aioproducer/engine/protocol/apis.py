"""The requests of the clients, and the versions that are spoken. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Api(IntEnum):
    """Kafka's numbers of the requests."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72


SUPPORTED: Final[Mapping[Api, tuple[int, int]]] = {
    Api.PRODUCE: (7, 13),
    Api.METADATA: (4, 13),
    Api.SASL_HANDSHAKE: (1, 1),  # version 0 is for tokens without Kafka's framing
    Api.API_VERSIONS: (0, 5),  # from 5 on with the broker that is meant (KIP-1242)
    Api.FIND_COORDINATOR: (1, 6),
    Api.INIT_PRODUCER_ID: (0, 5),
    Api.ADD_PARTITIONS_TO_TXN: (0, 3),  # later ones are for brokers
    Api.ADD_OFFSETS_TO_TXN: (0, 4),
    Api.END_TXN: (0, 5),
    Api.TXN_OFFSET_COMMIT: (0, 6),  # from 6 on with topic ids (KIP-1319)
    Api.SASL_AUTHENTICATE: (0, 2),  # from 1 on with the session's lifetime (KIP-368)
    Api.OFFSET_COMMIT: (2, 10),  # from 10 on with topic ids
    Api.OFFSET_FETCH: (2, 9),  # from 7 on without open transactions; 10 only has topic ids
    Api.JOIN_GROUP: (2, 9),
    Api.SYNC_GROUP: (1, 5),
    Api.HEARTBEAT: (1, 4),
    Api.LEAVE_GROUP: (1, 5),
    Api.FETCH: (4, 18),  # from 4 on with the index of aborted transactions
    Api.LIST_OFFSETS: (2, 11),  # from 2 on with the isolation level
    Api.OFFSET_FOR_LEADER_EPOCH: (3, 4),  # from 3 on for clients
    Api.CREATE_TOPICS: (2, 7),
    Api.DELETE_TOPICS: (1, 6),
    Api.DELETE_RECORDS: (0, 2),
    Api.CREATE_PARTITIONS: (0, 3),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.LIST_GROUPS: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.DELETE_GROUPS: (0, 3),
    Api.OFFSET_DELETE: (0, 0),
    Api.CONSUMER_GROUP_HEARTBEAT: (0, 1),  # from 1 on the members make their ids (KIP-1082)
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    Api.PUSH_TELEMETRY: (0, 0),
}
"""The lowest and highest version of each request that this client can express."""
