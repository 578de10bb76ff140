"""The tests of aiokafka 0.14.0 that cannot pass with our producer, and the reason of each."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.14.0"
"""The version of aiokafka that the table is about."""

FILES: Final = ("test_producer.py", "test_transactional_producer.py", "test_pep492.py")

_CLIENT_SEND: Final = (
    "replaces the method client.send of aiokafka, through which each of its requests goes: "
)
_METADATA: Final = "changes a leader in _metadata, the private metadata of aiokafka: "
_TRANSACTIONS: Final = "reads or changes _txn_manager, the private state machine of aiokafka: "

DIFFERENCES: Final[dict[str, str]] = {
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
