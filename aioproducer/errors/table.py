"""The error table: the disposition of each error code in a broker's response.

The outcome of a batch depends on the code only by this table:
:mod:`aioproducer.engine.sender.outcomes` decides what a disposition means for the batch. What a
coordinator's error means for a transaction depends on the error's class, in
:mod:`aioproducer.engine.transactions.requests`, and for a member of a group on the code, in
:mod:`aioproducer.engine.groups.reactions`. A code without a row is one that
producers should not get (retried if Kafka considers it retriable, otherwise refused) or one of a
newer Kafka (refused). Whether the batch was written is then unknown.

Source: Kafka's ``Errors``, ``Sender`` and ``TransactionManager``; for batches that are written
despite an error, ``ReplicaManager`` and ``DelayedProduce``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aioproducer.errors import broker
from aioproducer.errors.broker import (
    KafkaError,
    UnlistedKafkaError,
    UnlistedRetriableError,
)
from aioproducer.errors.codes import RETRIABLE, ErrorCode, code_name
from aioproducer.errors.dispositions import Disposition, Written

_DELIVERED, _TOO_LARGE = Disposition.DELIVERED, Disposition.TOO_LARGE
_MISNUMBERED, _UNSUPPORTED = Disposition.MISNUMBERED, Disposition.UNSUPPORTED
_RETRIABLE, _REFUSED = Disposition.RETRIABLE, Disposition.REFUSED
_TOPIC_REFUSED = Disposition.TOPIC_REFUSED
_ABORTABLE, _FATAL = Disposition.ABORTABLE, Disposition.FATAL
_MAYBE = Written.MAYBE


class Row(NamedTuple):
    """One error code: its class, and the producer's reaction."""

    code: ErrorCode
    error: type[KafkaError]
    disposition: Disposition
    refresh: bool = False
    """The known leaders are out of date."""
    written: Written = Written.NO
    advice: str = ""
    """Advice that the broker's message lacks."""


# fmt: off
TABLE: Final = (
    Row(ErrorCode.UNKNOWN_SERVER_ERROR, broker.UnknownServerError, _REFUSED, written=_MAYBE),
    Row(ErrorCode.OFFSET_OUT_OF_RANGE, broker.OffsetOutOfRangeError, _REFUSED,
        advice="seek() to an offset that the log has, or set auto_offset_reset"),
    Row(ErrorCode.CORRUPT_MESSAGE, broker.CorruptMessageError, _RETRIABLE,
        advice="the network or the broker's memory may be faulty"),
    Row(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, broker.UnknownTopicOrPartitionError, _RETRIABLE,
        refresh=True,
        advice="the topic or partition does not exist, or the brokers have not created it yet"),
    Row(ErrorCode.LEADER_NOT_AVAILABLE, broker.LeaderNotAvailableError, _RETRIABLE,
        refresh=True, advice="the partition has no leader yet"),
    # A leader that is deposed while it waits for its followers says so of what it has written.
    Row(ErrorCode.NOT_LEADER_OR_FOLLOWER, broker.NotLeaderOrFollowerError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.REQUEST_TIMED_OUT, broker.RequestTimedOutError, _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.BROKER_NOT_AVAILABLE, broker.BrokerNotAvailableError, _REFUSED),
    Row(ErrorCode.REPLICA_NOT_AVAILABLE, broker.ReplicaNotAvailableError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.MESSAGE_TOO_LARGE, broker.MessageTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's max.message.bytes"),
    Row(ErrorCode.NETWORK_EXCEPTION, broker.NetworkExceptionError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.OFFSET_METADATA_TOO_LARGE, broker.OffsetMetadataTooLargeError, _ABORTABLE),
    Row(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, broker.CoordinatorLoadInProgressError, _RETRIABLE),
    Row(ErrorCode.COORDINATOR_NOT_AVAILABLE, broker.CoordinatorNotAvailableError, _RETRIABLE),
    Row(ErrorCode.NOT_COORDINATOR, broker.NotCoordinatorError, _RETRIABLE),
    Row(ErrorCode.INVALID_TOPIC_EXCEPTION, broker.InvalidTopicError, _TOPIC_REFUSED,
        advice="check the topic's name: it is invalid, or the topic is internal"),
    # Java fails such a batch. Batches that grow under load may be larger than a small segment.
    Row(ErrorCode.RECORD_LIST_TOO_LARGE, broker.RecordListTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's segment.bytes"),
    Row(ErrorCode.NOT_ENOUGH_REPLICAS, broker.NotEnoughReplicasError, _RETRIABLE),
    Row(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, broker.NotEnoughReplicasAfterAppendError,
        _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.INVALID_REQUIRED_ACKS, broker.InvalidRequiredAcksError, _REFUSED),
    Row(ErrorCode.ILLEGAL_GENERATION, broker.IllegalGenerationError, _ABORTABLE,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.INVALID_GROUP_ID, broker.InvalidGroupIdError, _ABORTABLE),
    Row(ErrorCode.UNKNOWN_MEMBER_ID, broker.UnknownMemberIdError, _ABORTABLE,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, broker.TopicAuthorizationFailedError,
        _TOPIC_REFUSED,
        advice="the principal needs the DESCRIBE and WRITE permissions for the topic"),
    Row(ErrorCode.GROUP_AUTHORIZATION_FAILED, broker.GroupAuthorizationFailedError, _ABORTABLE,
        advice="the principal needs the READ permission for the group (DESCRIBE is enough to look "
        "up its offsets)"),
    Row(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, broker.ClusterAuthorizationFailedError, _FATAL,
        advice="the principal needs the IDEMPOTENT_WRITE permission, or set "
        "enable_idempotence=False"),
    Row(ErrorCode.INVALID_TIMESTAMP, broker.InvalidTimestampError, _REFUSED,
        advice="check the timestamps, or the topic's message.timestamp.before.max.ms and "
        ".after.max.ms"),
    Row(ErrorCode.UNSUPPORTED_VERSION, broker.BrokerUnsupportedVersionError, _UNSUPPORTED),
    Row(ErrorCode.INVALID_REQUEST, broker.InvalidRequestError, _REFUSED),
    Row(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, broker.UnsupportedForMessageFormatError,
        _REFUSED, advice="set the topic's message.format.version to 0.11.0 or newer, or "
        "enable_idempotence=False for records without headers"),
    Row(ErrorCode.POLICY_VIOLATION, broker.PolicyViolationError, _REFUSED),
    # It says nothing about earlier attempts: after a restart a broker only knows the last batch.
    Row(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, broker.OutOfOrderSequenceNumberError,
        _MISNUMBERED, advice="the broker can't tell whether an earlier attempt was written"),
    Row(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, broker.DuplicateSequenceNumberError, _DELIVERED),
    Row(ErrorCode.INVALID_PRODUCER_EPOCH, broker.InvalidProducerEpochError, _ABORTABLE,
        advice="a newer producer has the same identity, or its transaction was aborted because it "
        "took longer than transaction_timeout_ms"),
    Row(ErrorCode.INVALID_TXN_STATE, broker.InvalidTxnStateError, _ABORTABLE,
        advice="the transaction is no longer open; it may have taken longer than "
        "transaction_timeout_ms"),
    Row(ErrorCode.INVALID_PRODUCER_ID_MAPPING, broker.InvalidProducerIdMappingError, _ABORTABLE,
        advice="the transactional id has another producer id now: a newer producer has used up "
        "the epochs of this one, nothing used the id for transactional.id.expiration.ms, or "
        "another cluster answers"),
    Row(ErrorCode.INVALID_TRANSACTION_TIMEOUT, broker.InvalidTransactionTimeoutError, _FATAL,
        advice="lower transaction_timeout_ms, or raise the brokers' transaction.max.timeout.ms"),
    Row(ErrorCode.OPERATION_NOT_ATTEMPTED, broker.OperationNotAttemptedError, _ABORTABLE),
    Row(ErrorCode.CONCURRENT_TRANSACTIONS, broker.ConcurrentTransactionsError, _RETRIABLE),
    Row(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        broker.TransactionalIdAuthorizationFailedError, _FATAL,
        advice="the principal needs the DESCRIBE and WRITE permissions for the transactional id"),
    # A disk may fail after the followers have read from it.
    Row(ErrorCode.KAFKA_STORAGE_ERROR, broker.KafkaStorageError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.UNSUPPORTED_SASL_MECHANISM, broker.UnsupportedSaslMechanismError, _REFUSED,
        advice="set sasl_mechanism to one that this listener offers"),
    Row(ErrorCode.ILLEGAL_SASL_STATE, broker.IllegalSaslStateError, _REFUSED,
        advice="check that security_protocol matches this listener"),
    Row(ErrorCode.SASL_AUTHENTICATION_FAILED, broker.SaslAuthenticationFailedError, _REFUSED,
        advice="check the credentials, and that sasl_mechanism is right for them"),
    Row(ErrorCode.UNKNOWN_PRODUCER_ID, broker.UnknownProducerIdError, _MISNUMBERED),
    Row(ErrorCode.LISTENER_NOT_FOUND, broker.ListenerNotFoundError, _RETRIABLE, refresh=True),
    Row(ErrorCode.FENCED_LEADER_EPOCH, broker.FencedLeaderEpochError, _RETRIABLE, refresh=True),
    Row(ErrorCode.UNKNOWN_LEADER_EPOCH, broker.UnknownLeaderEpochError, _RETRIABLE),
    Row(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, broker.UnsupportedCompressionTypeError, _REFUSED),
    Row(ErrorCode.INVALID_RECORD, broker.InvalidRecordError, _REFUSED,
        advice="does the topic need keys (cleanup.policy=compact), or another timestamp?"),
    Row(ErrorCode.THROTTLING_QUOTA_EXCEEDED, broker.ThrottlingQuotaExceededError, _RETRIABLE),
    Row(ErrorCode.FENCED_INSTANCE_ID, broker.FencedInstanceIdError, _ABORTABLE),
    Row(ErrorCode.PRODUCER_FENCED, broker.ProducerFencedError, _FATAL,
        advice="a newer producer has the same transactional id, or the transaction took longer "
        "than transaction_timeout_ms"),
    Row(ErrorCode.UNKNOWN_TOPIC_ID, broker.UnknownTopicIdError, _RETRIABLE, refresh=True),
    Row(ErrorCode.INCONSISTENT_TOPIC_ID, broker.InconsistentTopicIdError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.STALE_MEMBER_EPOCH, broker.StaleMemberEpochError, _ABORTABLE),
    Row(ErrorCode.TRANSACTION_ABORTABLE, broker.TransactionAbortableError, _ABORTABLE),
    Row(ErrorCode.REBOOTSTRAP_REQUIRED, broker.RebootstrapRequiredError, Disposition.REBOOTSTRAP),
    # The answers to changes of topics and groups.
    Row(ErrorCode.TOPIC_ALREADY_EXISTS, broker.TopicAlreadyExistsError, _REFUSED),
    Row(ErrorCode.INVALID_PARTITIONS, broker.InvalidPartitionsError, _REFUSED),
    Row(ErrorCode.INVALID_REPLICATION_FACTOR, broker.InvalidReplicationFactorError, _REFUSED,
        advice="the factor is from 1 to the number of brokers"),
    Row(ErrorCode.INVALID_REPLICA_ASSIGNMENT, broker.InvalidReplicaAssignmentError, _REFUSED),
    Row(ErrorCode.INVALID_CONFIG, broker.InvalidConfigError, _REFUSED,
        advice="check the names and values of the configuration"),
    Row(ErrorCode.NOT_CONTROLLER, broker.NotControllerError, _RETRIABLE),
    Row(ErrorCode.REASSIGNMENT_IN_PROGRESS, broker.ReassignmentInProgressError, _REFUSED,
        advice="try again when the replicas have moved"),
    Row(ErrorCode.NON_EMPTY_GROUP, broker.NonEmptyGroupError, _REFUSED,
        advice="the group has members: stop them, and try again"),
    Row(ErrorCode.GROUP_ID_NOT_FOUND, broker.GroupIdNotFoundError, _REFUSED,
        advice="check the group's id; a group without members and offsets disappears"),
    Row(ErrorCode.TOPIC_DELETION_DISABLED, broker.TopicDeletionDisabledError, _REFUSED,
        advice="set the brokers' delete.topic.enable=true"),
    Row(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, broker.GroupSubscribedToTopicError, _REFUSED,
        advice="members of the group read the topic: stop them, and try again"),
)
# fmt: on
"""One row for each code that a producer, an admin or a member of a group can meet."""


def _bind(row: Row) -> None:
    """Give the class what its row says."""
    error = row.error
    error.code = int(row.code)
    error.disposition = row.disposition
    error.retriable = row.disposition is Disposition.RETRIABLE
    error.refresh_metadata = row.refresh
    error.written = row.written


for _row in TABLE:
    _bind(_row)

_ROWS: Final = {int(row.code): row for row in TABLE}


def kafka_error(code: int, message: str) -> KafkaError:
    """The exception for a broker's error ``code``, with ``message`` as its text."""
    row = _ROWS.get(code)
    if row is not None:
        return row.error(message)
    kind = UnlistedRetriableError if code in RETRIABLE else UnlistedKafkaError
    error = kind(message)
    error.code = int(code)
    return error


def error_about(what: object, code: int) -> KafkaError:
    """The exception for a broker's error ``code`` about ``what``, such as a topic."""
    return kafka_error(code, f"{what}: {explain(code)}")


def explain(code: int, said: str | None = None) -> str:
    """An error code in words: its name, and what the broker said or else what to do about it."""
    row = _ROWS.get(code)
    more = said or ("" if row is None else row.advice)
    return f"{code_name(code)}: {more}" if more else code_name(code)
