"""The error table: the disposition of each error code that a broker can answer with.

Nothing else decides by code. The meaning of a coordinator's answer for a transaction depends on the
error's class, in :mod:`aioproducer.engine.transactions.requests`. A code without a row is one that
no producer is meant to get (it is retried if Kafka calls it retriable, else refused) or one of a
newer Kafka (it is refused); nobody knows what it says about the log.

Source: Kafka's ``Errors``, ``Sender`` and ``TransactionManager``; for batches that are written in
spite of an error, ``ReplicaManager`` and ``DelayedProduce``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from aioproducer.errors import broker
from aioproducer.errors.broker import (
    KafkaError,
    UnlistedKafkaError,
    UnlistedRetriableError,
    code_name,
)
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
    """The advice that the broker's own words lack."""


# fmt: off
TABLE: Final = (
    Row(ErrorCode.unknown_server_error, broker.UnknownServerError, _REFUSED, written=_MAYBE),
    Row(ErrorCode.offset_out_of_range, broker.OffsetOutOfRangeError, _REFUSED,
        advice="seek() to an offset that the log has, or set auto_offset_reset"),
    Row(ErrorCode.corrupt_message, broker.CorruptMessageError, _RETRIABLE,
        advice="the network or the broker's memory may be faulty"),
    Row(ErrorCode.unknown_topic_or_partition, broker.UnknownTopicOrPartitionError, _RETRIABLE,
        refresh=True,
        advice="the topic or partition does not exist, or the brokers have not created it yet"),
    Row(ErrorCode.leader_not_available, broker.LeaderNotAvailableError, _RETRIABLE,
        refresh=True, advice="the partition has no leader yet"),
    # A leader that is deposed while it waits for its followers says so of what it has written.
    Row(ErrorCode.not_leader_or_follower, broker.NotLeaderOrFollowerError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.request_timed_out, broker.RequestTimedOutError, _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.broker_not_available, broker.BrokerNotAvailableError, _REFUSED),
    Row(ErrorCode.replica_not_available, broker.ReplicaNotAvailableError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.message_too_large, broker.MessageTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's max.message.bytes"),
    Row(ErrorCode.network_exception, broker.NetworkExceptionError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.offset_metadata_too_large, broker.OffsetMetadataTooLargeError, _ABORTABLE),
    Row(ErrorCode.coordinator_load_in_progress, broker.CoordinatorLoadInProgressError, _RETRIABLE),
    Row(ErrorCode.coordinator_not_available, broker.CoordinatorNotAvailableError, _RETRIABLE),
    Row(ErrorCode.not_coordinator, broker.NotCoordinatorError, _RETRIABLE),
    Row(ErrorCode.invalid_topic_exception, broker.InvalidTopicError, _TOPIC_REFUSED,
        advice="check the topic's name: it is illegal, or the topic is internal"),
    # Java fails such a batch. Batches that grow under load may be larger than a small segment.
    Row(ErrorCode.record_list_too_large, broker.RecordListTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's segment.bytes"),
    Row(ErrorCode.not_enough_replicas, broker.NotEnoughReplicasError, _RETRIABLE),
    Row(ErrorCode.not_enough_replicas_after_append, broker.NotEnoughReplicasAfterAppendError,
        _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.invalid_required_acks, broker.InvalidRequiredAcksError, _REFUSED),
    Row(ErrorCode.illegal_generation, broker.IllegalGenerationError, _ABORTABLE,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.invalid_group_id, broker.InvalidGroupIdError, _ABORTABLE),
    Row(ErrorCode.unknown_member_id, broker.UnknownMemberIdError, _ABORTABLE,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.topic_authorization_failed, broker.TopicAuthorizationFailedError,
        _TOPIC_REFUSED,
        advice="the principal needs the DESCRIBE and WRITE permissions for the topic"),
    Row(ErrorCode.group_authorization_failed, broker.GroupAuthorizationFailedError, _ABORTABLE,
        advice="the principal needs the READ permission for the group (DESCRIBE is enough to look "
        "up its offsets)"),
    Row(ErrorCode.cluster_authorization_failed, broker.ClusterAuthorizationFailedError, _FATAL,
        advice="the principal needs the IDEMPOTENT_WRITE permission, or set "
        "enable_idempotence=False"),
    Row(ErrorCode.invalid_timestamp, broker.InvalidTimestampError, _REFUSED,
        advice="check the timestamps, or the topic's message.timestamp.before.max.ms and "
        ".after.max.ms"),
    Row(ErrorCode.unsupported_version, broker.BrokerUnsupportedVersionError, _UNSUPPORTED),
    Row(ErrorCode.invalid_request, broker.InvalidRequestError, _REFUSED),
    Row(ErrorCode.unsupported_for_message_format, broker.UnsupportedForMessageFormatError,
        _REFUSED, advice="set the topic's message.format.version to 0.11.0 or newer, or "
        "enable_idempotence=False for records without headers"),
    Row(ErrorCode.policy_violation, broker.PolicyViolationError, _REFUSED),
    # It says nothing about earlier attempts: after a restart a broker knows the last batch alone.
    Row(ErrorCode.out_of_order_sequence_number, broker.OutOfOrderSequenceNumberError,
        _MISNUMBERED, advice="the broker can't tell whether an earlier attempt was written"),
    Row(ErrorCode.duplicate_sequence_number, broker.DuplicateSequenceNumberError, _DELIVERED),
    Row(ErrorCode.invalid_producer_epoch, broker.InvalidProducerEpochError, _ABORTABLE,
        advice="a newer producer has the same identity, or its transaction was aborted because it "
        "took longer than transaction_timeout_ms"),
    Row(ErrorCode.invalid_txn_state, broker.InvalidTxnStateError, _ABORTABLE,
        advice="the transaction is not open any more; it may have taken longer than "
        "transaction_timeout_ms"),
    Row(ErrorCode.invalid_producer_id_mapping, broker.InvalidProducerIdMappingError, _ABORTABLE,
        advice="the transactional id has another producer id now: a newer producer has used up "
        "the epochs of this one, or nothing used the id for transactional.id.expiration.ms"),
    Row(ErrorCode.invalid_transaction_timeout, broker.InvalidTransactionTimeoutError, _FATAL,
        advice="lower transaction_timeout_ms, or raise the brokers' transaction.max.timeout.ms"),
    Row(ErrorCode.operation_not_attempted, broker.OperationNotAttemptedError, _ABORTABLE),
    Row(ErrorCode.concurrent_transactions, broker.ConcurrentTransactionsError, _RETRIABLE),
    Row(ErrorCode.transactional_id_authorization_failed,
        broker.TransactionalIdAuthorizationFailedError, _FATAL,
        advice="the principal needs the DESCRIBE and WRITE permissions for the transactional id"),
    # A disk may fail after the followers have read from it.
    Row(ErrorCode.kafka_storage_error, broker.KafkaStorageError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.unsupported_sasl_mechanism, broker.UnsupportedSaslMechanismError, _REFUSED,
        advice="set sasl_mechanism to one that this listener offers"),
    Row(ErrorCode.illegal_sasl_state, broker.IllegalSaslStateError, _REFUSED,
        advice="check that security_protocol matches this listener"),
    Row(ErrorCode.sasl_authentication_failed, broker.SaslAuthenticationFailedError, _REFUSED,
        advice="check the credentials, and that sasl_mechanism is right for them"),
    Row(ErrorCode.unknown_producer_id, broker.UnknownProducerIdError, _MISNUMBERED),
    Row(ErrorCode.listener_not_found, broker.ListenerNotFoundError, _RETRIABLE, refresh=True),
    Row(ErrorCode.fenced_leader_epoch, broker.FencedLeaderEpochError, _RETRIABLE, refresh=True),
    Row(ErrorCode.unknown_leader_epoch, broker.UnknownLeaderEpochError, _RETRIABLE),
    Row(ErrorCode.unsupported_compression_type, broker.UnsupportedCompressionTypeError, _REFUSED),
    Row(ErrorCode.invalid_record, broker.InvalidRecordError, _REFUSED,
        advice="does the topic need keys (cleanup.policy=compact), or another timestamp?"),
    Row(ErrorCode.throttling_quota_exceeded, broker.ThrottlingQuotaExceededError, _RETRIABLE),
    Row(ErrorCode.fenced_instance_id, broker.FencedInstanceIdError, _ABORTABLE),
    Row(ErrorCode.producer_fenced, broker.ProducerFencedError, _FATAL,
        advice="a newer producer has the same transactional id, or the transaction took longer "
        "than transaction_timeout_ms"),
    Row(ErrorCode.unknown_topic_id, broker.UnknownTopicIdError, _RETRIABLE, refresh=True),
    Row(ErrorCode.inconsistent_topic_id, broker.InconsistentTopicIdError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.stale_member_epoch, broker.StaleMemberEpochError, _ABORTABLE),
    Row(ErrorCode.transaction_abortable, broker.TransactionAbortableError, _ABORTABLE),
    Row(ErrorCode.rebootstrap_required, broker.RebootstrapRequiredError, Disposition.REBOOTSTRAP),
    # The answers to changes of topics.
    Row(ErrorCode.topic_already_exists, broker.TopicAlreadyExistsError, _REFUSED),
    Row(ErrorCode.invalid_partitions, broker.InvalidPartitionsError, _REFUSED),
    Row(ErrorCode.invalid_replication_factor, broker.InvalidReplicationFactorError, _REFUSED,
        advice="the factor is from 1 to the number of brokers"),
    Row(ErrorCode.invalid_replica_assignment, broker.InvalidReplicaAssignmentError, _REFUSED),
    Row(ErrorCode.invalid_config, broker.InvalidConfigError, _REFUSED,
        advice="check the names and values of the configuration"),
    Row(ErrorCode.not_controller, broker.NotControllerError, _RETRIABLE),
    Row(ErrorCode.reassignment_in_progress, broker.ReassignmentInProgressError, _REFUSED,
        advice="try again when the replicas have moved"),
    Row(ErrorCode.group_id_not_found, broker.GroupIdNotFoundError, _REFUSED,
        advice="check the group's id; a group without members and offsets disappears"),
    Row(ErrorCode.topic_deletion_disabled, broker.TopicDeletionDisabledError, _REFUSED,
        advice="set the brokers' delete.topic.enable=true"),
)
# fmt: on
"""One row for each code that a producer can meet."""


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
_RETRIABLE_BY_KAFKA: Final = frozenset(int(code) for code in ErrorCode if code.retriable)


def kafka_error(code: int, message: str) -> KafkaError:
    """The exception for a broker's error ``code``, with ``message`` as its text."""
    row = _ROWS.get(code)
    if row is not None:
        return row.error(message)
    kind = UnlistedRetriableError if code in _RETRIABLE_BY_KAFKA else UnlistedKafkaError
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
