"""The tests of aiokafka 0.14.0 that cannot pass with our clients, and the reason of each."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.14.0"
"""The version of aiokafka that the table is about."""

FILES: Final = (
    "test_producer.py",
    "test_transactional_producer.py",
    "test_pep492.py",
    "test_consumer.py",
    "test_transactional_consumer.py",
)

_CLIENT_SEND: Final = (
    "replaces the method client.send of aiokafka, through which each of its requests goes: "
)
_METADATA: Final = "changes a leader in _metadata, the private metadata of aiokafka: "
_TRANSACTIONS: Final = "reads or changes _txn_manager, the private state machine of aiokafka: "

_COORDINATOR: Final = "replaces a method of _coordinator, the private member of aiokafka: "
_FETCHER: Final = "counts or replaces the private class PartitionRecords of aiokafka: "
_SUBSCRIPTION: Final = (
    "waits for _subscription.wait_for_assignment(), a private method of aiokafka: "
)
_READ_AHEAD: Final = "looks at the private read-ahead _fetcher._records"
_PATTERNS: Final = "looks at the private _client.cluster, and creates a topic by a private method: "

DIFFERENCES: Final[dict[str, str]] = {
    "test_consumer_cleanup_unassigned_data_getmany": _READ_AHEAD,
    "test_consumer_cleanup_unassigned_data_getone": _READ_AHEAD,
    "test_consumer_compacted_topic": (
        _FETCHER + "tests/unit/reader has batches of which records were removed"
    ),
    "test_consumer_compressed_returns_older_msgs": _CLIENT_SEND + "it counts fetched records",
    "test_consumer_context_manager": "looks at the private attribute _fetcher",
    "test_consumer_invalid_crc_in_records": (
        _CLIENT_SEND + "tests/unit/reader has batches whose checksums are wrong"
    ),
    "test_consumer_position": _SUBSCRIPTION + "tests/unit/compat asks for positions in a rebalance",
    "test_consumer_propagates_commit_refresh_errors": (
        _COORDINATOR + "tests/unit/compat has a broker that refuses the offsets"
    ),
    "test_consumer_propagates_coordinator_errors": (
        _COORDINATOR + "tests/unit/compat has a broker that refuses the member"
    ),
    "test_consumer_propagates_heartbeat_errors": (
        _COORDINATOR + "tests/unit/compat has a broker that refuses the member"
    ),
    "test_consumer_seek_backward": _FETCHER + "tests/unit/compat seeks in a batch",
    "test_consumer_seek_forward_getmany": _FETCHER + "tests/unit/compat seeks in a batch",
    "test_consumer_seek_forward_getone": _FETCHER + "tests/unit/compat seeks in a batch",
    "test_consumer_subscribe_pattern_autocreate_no_group_id": (
        _PATTERNS + "tests/kafka/compat creates topics that match"
    ),
    "test_consumer_subscribe_pattern_with_autocreate": (
        _PATTERNS + "tests/kafka/compat creates topics that match"
    ),
    "test_exclude_internal_topics": (
        "needs exclude_internal_topics=False, which is refused for a pattern: internal topics are "
        "subscribed to by their names"
    ),
    "test_kafka_consumer_sets_coordinator_values": "looks at private attributes of _coordinator",
    "test_kip_345_disabled": _SUBSCRIPTION + "tests/kafka/compat has a static member",
    "test_kip_345_enabled": (
        "looks at the private attribute _group_instance_id: tests/kafka/compat has a static member"
    ),
    "test_manual_subscribe_pattern": (
        "its pattern matches the topics of another test as well, with equal values, and it expects "
        "the records partition after partition; here partitions take turns batch by batch"
    ),
    "test_rebalance_listener_with_coroutines": (
        "looks at the private attribute _coordinator: tests/kafka/compat has listeners that wait"
    ),
    "test_producer_context_manager": "looks at the private attribute _sender._sender_task",
    "test_producer_correct_time_returned": (
        _CLIENT_SEND + "tests/kafka/compat has a topic with LogAppendTime instead"
    ),
    "test_producer_idempotence_configuration": "looks at the private attribute _sender._acks",
    "test_producer_indempotence_no_duplicates": (
        _CLIENT_SEND + "tests/faults loses responses on the wire"
    ),
    "test_producer_invalid_leader_retry_metadata": _METADATA + "tests/mock_cluster moves leaders",
    "test_producer_leader_change_preserves_order": _METADATA + "tests/mock_cluster moves leaders",
    "test_producer_notopic": (
        "replaces the method _metadata_update of aiokafka's class AIOKafkaClient: "
        "tests/kafka/compat asks for a topic that does not exist"
    ),
    "test_producer_send_empty_batch": "replaces the private method _sender._send_produce_req",
    "test_producer_send_error": _CLIENT_SEND + "tests/mock_cluster/compat lets brokers answer so",
    "test_producer_send_leader_notfound": (
        "replaces the method leader_for_partition of aiokafka's class ClusterMetadata"
    ),
    "test_producer_send_reenque_resets_waiters": _CLIENT_SEND + "tests/mock_cluster retries",
    "test_producer_send_timeout": (
        _CLIENT_SEND + "tests/mock_cluster/compat has silent brokers instead"
    ),
    "test_producer_sender_errors_propagate_to_producer": (
        "replaces the private method _sender._send_produce_req"
    ),
    "test_producer_transactional_aborting_previous_failure": (
        _TRANSACTIONS + "it spoils a sequence number"
    ),
    "test_producer_transactional_cancel_txn_methods": (
        _TRANSACTIONS + "tests/kafka/compat cancels a commit and looks at the log"
    ),
    "test_producer_transactional_raise_out_of_sequence": (
        _TRANSACTIONS + "it spoils a sequence number"
    ),
    "test_producer_transactional_restart_reaquire_pid": _TRANSACTIONS + "it compares producer ids",
}
"""The reasons by the name of the test."""
