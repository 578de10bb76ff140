"""The error table, against what Kafka's brokers answer and what its Java client makes of it.

The lists are written from Kafka's source (``KafkaApis``, ``ReplicaManager``, ``UnifiedLog``,
``LogValidator``, ``ProducerAppendInfo``, ``TransactionCoordinator``, ``AutoTopicCreationManager``,
2.1 to 4.1), not from the table.
"""

from __future__ import annotations

import pytest

from aioproducer.engine.protocol import Api
from aioproducer.errors import Disposition, KafkaError, Written, broker, kafka_error
from aioproducer.errors.broker import TABLE, ErrorCode, explain

RETRIABLE, REFRESH = "retriable", "retriable, refresh"

PRODUCE = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "CORRUPT_MESSAGE": RETRIABLE,
    "UNKNOWN_TOPIC_OR_PARTITION": REFRESH,
    "LEADER_NOT_AVAILABLE": REFRESH,
    "NOT_LEADER_OR_FOLLOWER": REFRESH,
    "REQUEST_TIMED_OUT": RETRIABLE,
    "BROKER_NOT_AVAILABLE": "refused",
    "REPLICA_NOT_AVAILABLE": REFRESH,
    "MESSAGE_TOO_LARGE": "too large",
    "NETWORK_EXCEPTION": REFRESH,
    "COORDINATOR_LOAD_IN_PROGRESS": RETRIABLE,
    "COORDINATOR_NOT_AVAILABLE": RETRIABLE,
    "NOT_COORDINATOR": RETRIABLE,
    "INVALID_TOPIC_EXCEPTION": "topic refused",
    "RECORD_LIST_TOO_LARGE": "too large",
    "NOT_ENOUGH_REPLICAS": RETRIABLE,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": RETRIABLE,
    "INVALID_REQUIRED_ACKS": "refused",
    "TOPIC_AUTHORIZATION_FAILED": "topic refused",
    "CLUSTER_AUTHORIZATION_FAILED": "fatal",
    "INVALID_TIMESTAMP": "refused",
    "UNSUPPORTED_VERSION": "unsupported",
    "INVALID_REQUEST": "refused",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "refused",
    "POLICY_VIOLATION": "refused",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "misnumbered",
    "DUPLICATE_SEQUENCE_NUMBER": "delivered",
    "INVALID_PRODUCER_EPOCH": "refused",
    "INVALID_TXN_STATE": "refused",
    "INVALID_PRODUCER_ID_MAPPING": "fatal",
    "CONCURRENT_TRANSACTIONS": RETRIABLE,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "fatal",
    "KAFKA_STORAGE_ERROR": REFRESH,
    "UNKNOWN_PRODUCER_ID": "misnumbered",
    "FENCED_LEADER_EPOCH": REFRESH,
    "UNKNOWN_LEADER_EPOCH": RETRIABLE,
    "UNSUPPORTED_COMPRESSION_TYPE": "refused",
    "INVALID_RECORD": "refused",
    "THROTTLING_QUOTA_EXCEEDED": RETRIABLE,
    "PRODUCER_FENCED": "fatal",
    "UNKNOWN_TOPIC_ID": REFRESH,
    "INCONSISTENT_TOPIC_ID": REFRESH,
    "TRANSACTION_ABORTABLE": "refused",
}
METADATA_OF_A_TOPIC = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "UNKNOWN_TOPIC_OR_PARTITION": REFRESH,
    "LEADER_NOT_AVAILABLE": REFRESH,
    "REQUEST_TIMED_OUT": RETRIABLE,
    "INVALID_TOPIC_EXCEPTION": "topic refused",
    "TOPIC_AUTHORIZATION_FAILED": "topic refused",
    "CLUSTER_AUTHORIZATION_FAILED": "fatal",
    "INVALID_PARTITIONS": "refused",
    "INVALID_REPLICATION_FACTOR": "refused",
    "INVALID_CONFIG": "refused",
    "NOT_CONTROLLER": RETRIABLE,
    "INVALID_REQUEST": "refused",
    "POLICY_VIOLATION": "refused",
    "THROTTLING_QUOTA_EXCEEDED": RETRIABLE,
    "UNKNOWN_TOPIC_ID": REFRESH,
}
METADATA_OF_A_PARTITION = {
    "LEADER_NOT_AVAILABLE": REFRESH,
    "REPLICA_NOT_AVAILABLE": REFRESH,
    "LISTENER_NOT_FOUND": REFRESH,
}
METADATA_AS_A_WHOLE = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "UNSUPPORTED_VERSION": "unsupported",
    "INVALID_REQUEST": "refused",
    "REBOOTSTRAP_REQUIRED": "rebootstrap",
}
INIT_PRODUCER_ID = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "REQUEST_TIMED_OUT": RETRIABLE,
    "COORDINATOR_LOAD_IN_PROGRESS": RETRIABLE,
    "COORDINATOR_NOT_AVAILABLE": RETRIABLE,
    "NOT_COORDINATOR": RETRIABLE,
    "CLUSTER_AUTHORIZATION_FAILED": "fatal",
    "UNSUPPORTED_VERSION": "unsupported",
    "INVALID_REQUEST": "refused",
    "INVALID_PRODUCER_EPOCH": "refused",
    "INVALID_PRODUCER_ID_MAPPING": "fatal",
    "INVALID_TRANSACTION_TIMEOUT": "fatal",
    "CONCURRENT_TRANSACTIONS": RETRIABLE,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "fatal",
    "PRODUCER_FENCED": "fatal",
    "TRANSACTION_ABORTABLE": "refused",
}
OF_COORDINATORS = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "UNKNOWN_TOPIC_OR_PARTITION": REFRESH,
    "OFFSET_METADATA_TOO_LARGE": "refused",
    "COORDINATOR_LOAD_IN_PROGRESS": RETRIABLE,
    "COORDINATOR_NOT_AVAILABLE": RETRIABLE,
    "NOT_COORDINATOR": RETRIABLE,
    "ILLEGAL_GENERATION": "refused",
    "INVALID_GROUP_ID": "refused",
    "UNKNOWN_MEMBER_ID": "refused",
    "TOPIC_AUTHORIZATION_FAILED": "topic refused",
    "GROUP_AUTHORIZATION_FAILED": "refused",
    "INVALID_REQUEST": "refused",
    "INVALID_PRODUCER_EPOCH": "refused",
    "INVALID_TXN_STATE": "refused",
    "INVALID_PRODUCER_ID_MAPPING": "fatal",
    "CONCURRENT_TRANSACTIONS": RETRIABLE,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "fatal",
    "OPERATION_NOT_ATTEMPTED": "refused",
    "UNKNOWN_PRODUCER_ID": "misnumbered",
    "FENCED_INSTANCE_ID": "refused",
    "PRODUCER_FENCED": "fatal",
    "STALE_MEMBER_EPOCH": "refused",
    "TRANSACTION_ABORTABLE": "refused",
}
"""FindCoordinator, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn. What they mean for
the transaction is in the verdicts."""
API_VERSIONS = {
    "UNKNOWN_SERVER_ERROR": "refused",
    "ILLEGAL_SASL_STATE": "refused",
    "UNSUPPORTED_VERSION": "unsupported",
    "INVALID_REQUEST": "refused",
}
CHANGES_OF_TOPICS = {
    "UNKNOWN_TOPIC_OR_PARTITION": REFRESH,
    "REQUEST_TIMED_OUT": RETRIABLE,
    "TOPIC_ALREADY_EXISTS": "refused",
    "INVALID_PARTITIONS": "refused",
    "INVALID_REPLICATION_FACTOR": "refused",
    "INVALID_REPLICA_ASSIGNMENT": "refused",
    "INVALID_CONFIG": "refused",
    "NOT_CONTROLLER": RETRIABLE,
    "REASSIGNMENT_IN_PROGRESS": "refused",
    "TOPIC_DELETION_DISABLED": "refused",
    "OFFSET_OUT_OF_RANGE": "refused",
}
GROUPS = {
    "COORDINATOR_LOAD_IN_PROGRESS": RETRIABLE,
    "GROUP_ID_NOT_FOUND": "refused",
    "NON_EMPTY_GROUP": "refused",
    "GROUP_SUBSCRIBED_TO_TOPIC": "refused",
}
WRITTEN_IN_SPITE_OF = {
    "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
}
"""What a produce response says that does not exclude that the batch is in the log."""

APIS = {
    "produce": PRODUCE,
    "metadata of a topic": METADATA_OF_A_TOPIC,
    "metadata of a partition": METADATA_OF_A_PARTITION,
    "metadata as a whole": METADATA_AS_A_WHOLE,
    "init producer id": INIT_PRODUCER_ID,
    "coordinators": OF_COORDINATORS,
    "api versions": API_VERSIONS,
    "changes of topics": CHANGES_OF_TOPICS,
    "groups": GROUPS,
}
EACH = [
    pytest.param(name, disposition, id=f"{api}: {name}")
    for api, codes in APIS.items()
    for name, disposition in codes.items()
]


def error_of(name: str) -> KafkaError:
    return kafka_error(ErrorCode[name], "what the broker said")


@pytest.mark.parametrize(("name", "disposition"), EACH)
def test_every_answer_has_its_disposition(name: str, disposition: str) -> None:
    error = error_of(name)
    said = (
        f"{error.disposition.value}, refresh" if error.refresh_metadata else error.disposition.value
    )
    assert said == disposition
    assert error.name == name


def test_every_row_is_an_answer_of_some_api() -> None:
    answered = {name for codes in APIS.values() for name in codes}
    only_elsewhere = {
        "OFFSET_OUT_OF_RANGE",  # of fetches
        "ILLEGAL_SASL_STATE",
        "SASL_AUTHENTICATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
    }
    assert {row.code.name for row in TABLE} <= answered | only_elsewhere


@pytest.mark.parametrize("name", PRODUCE)
def test_what_each_answer_says_about_the_log(name: str) -> None:
    expected = Written.MAYBE if name in WRITTEN_IN_SPITE_OF else Written.NO
    assert error_of(name).written is expected


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_every_code_of_kafka_has_a_row_or_what_is_usual(code: ErrorCode) -> None:
    error = kafka_error(code, "text")
    if code not in {row.code for row in TABLE}:
        assert error.disposition is (
            Disposition.RETRIABLE if code in broker.RETRIABLE else Disposition.REFUSED
        )
        assert error.written is Written.MAYBE, "nobody knows what it is doing there"
    assert error.retriable is (error.disposition is Disposition.RETRIABLE)
    assert error.retriable is (code in broker.RETRIABLE), "as Kafka calls it"


@pytest.mark.parametrize("code", [max(ErrorCode) + 1, 9999, -2])
def test_a_code_of_tomorrow_is_a_clear_error(code: int) -> None:
    error = kafka_error(code, explain(code))
    assert error.disposition is Disposition.REFUSED
    assert error.written is Written.MAYBE
    assert str(error) == error.name == f"ERROR_{code}"


def test_a_code_and_a_class_have_one_row() -> None:
    assert len({row.code for row in TABLE}) == len({row.error for row in TABLE}) == len(TABLE)


def test_advice_is_given_where_the_broker_says_nothing() -> None:
    assert explain(10) == (
        "MESSAGE_TOO_LARGE: send smaller records, or raise the topic's max.message.bytes"
    )
    assert explain(10, "too big by 7") == "MESSAGE_TOO_LARGE: too big by 7"
    assert explain(14) == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        (None, "DESCRIBE and WRITE permissions for the topic"),
        (Api.ADD_PARTITIONS_TO_TXN, "WRITE permission for the topic"),
        (Api.PRODUCE, "WRITE permission for the topic"),
        (Api.FETCH, "READ permission for the topic"),
        (Api.METADATA, "DESCRIBE permission for the topic, which READ and WRITE include"),
        (Api.LIST_OFFSETS, "DESCRIBE permission for the topic, which READ and WRITE include"),
        (Api.TXN_OFFSET_COMMIT, "READ permission for the topic"),
    ],
)
def test_a_refused_request_names_the_permission_that_it_needs(
    request_: Api | None, right: str
) -> None:
    assert explain(29, request=request_) == (
        f"TOPIC_AUTHORIZATION_FAILED: the principal needs the {right}"
    )
    assert explain(29, "ask Bob", request_) == "TOPIC_AUTHORIZATION_FAILED: ask Bob"
