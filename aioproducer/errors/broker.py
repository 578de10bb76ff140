"""The errors of brokers: Kafka's error codes, their classes, and the table of their dispositions.

There is one class for each code that a producer can get. The outcome of a batch depends on the code
only by the table: :mod:`aioproducer.engine.sender.outcomes` decides what a disposition means for
the batch. What a coordinator's error means for a transaction depends on the error's class, in
:mod:`aioproducer.engine.transactions.requests`, and for a member of a group on the code, in
:mod:`aioproducer.engine.groups.requests`. A code without a row is one that producers should not
get (retried if Kafka considers it retriable, otherwise refused) or one of a newer Kafka (refused).
Whether the batch was written is then unknown.

Source: Kafka's ``Errors``, ``Sender`` and ``TransactionManager``; for batches that are written
despite an error, ``ReplicaManager`` and ``DelayedProduce``. No I/O.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

from aioproducer.errors.client import (
    AbortableTransactionError,
    AuthenticationError,
    Disposition,
    FatalTransactionError,
    ProducerError,
    RecordTooLargeError,
    UnsupportedVersionError,
    UsageError,
    Written,
)


class ErrorCode(IntEnum):
    """Kafka's names and numbers of the errors."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136


RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
"""The errors that Kafka's own clients consider retriable (``RetriableException``)."""


def code_name(code: int) -> str:
    """Kafka's name of an error code, such as ``NOT_LEADER_OR_FOLLOWER``."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"


class KafkaError(ProducerError):
    """A broker answered with an error code."""

    code: int = -1
    """Kafka's number for the error."""
    disposition: ClassVar[Disposition] = Disposition.REFUSED
    """The producer's reaction: retry, split, refuse, abort and so on."""

    @property
    def name(self) -> str:
        """Kafka's name for the error, such as ``NOT_LEADER_OR_FOLLOWER``."""
        return code_name(self.code)


class UnlistedKafkaError(KafkaError):
    """A broker answered with a code that has no class here, because producers should not get it."""

    written = Written.MAYBE


class UnlistedRetriableError(UnlistedKafkaError):
    """A broker answered with a code that has no class here, and that Kafka considers retriable."""

    disposition = Disposition.RETRIABLE
    retriable = True


class UnknownServerError(KafkaError):
    """The broker had an unexpected error; its log has the details."""


class OffsetOutOfRangeError(KafkaError):
    """The log has no record at the requested offset, or never had one."""


class CorruptMessageError(KafkaError):
    """The checksum of the batch was wrong on arrival."""


class UnknownTopicOrPartitionError(KafkaError):
    """The topic does not exist, or the broker does not host the partition."""


class LeaderNotAvailableError(KafkaError):
    """The partition has no leader: an election is in progress."""


class NotLeaderOrFollowerError(KafkaError):
    """The broker no longer leads the partition."""


class RequestTimedOutError(KafkaError):
    """Not enough replicas acknowledged in time."""


class BrokerNotAvailableError(KafkaError):
    """The broker is not available."""


class ReplicaNotAvailableError(KafkaError):
    """The replica is not available on the broker."""


class MessageTooLargeError(KafkaError, RecordTooLargeError):
    """The batch is larger than the topic's ``max.message.bytes``."""


class NetworkExceptionError(KafkaError):
    """The broker lost a connection while it answered."""


class CoordinatorLoadInProgressError(KafkaError):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(KafkaError):
    """The coordinator is not available yet."""


class NotCoordinatorError(KafkaError):
    """The broker is not the requested coordinator."""


class InvalidTopicError(KafkaError, UsageError, ValueError):
    """The topic name is invalid, or writing to the topic is not allowed."""


class RecordListTooLargeError(KafkaError, RecordTooLargeError):
    """The batch is larger than the topic's segment size."""


class NotEnoughReplicasError(KafkaError):
    """Fewer replicas are in sync than ``min.insync.replicas`` requires; nothing was written."""


class NotEnoughReplicasAfterAppendError(KafkaError):
    """The leader wrote the batch, but then found too few replicas in sync."""


class InvalidRequiredAcksError(KafkaError):
    """The broker does not accept this value of ``acks``."""


class TopicAuthorizationFailedError(KafkaError):
    """The principal is not allowed to write to (or describe) the topic."""


class GroupAuthorizationFailedError(KafkaError):
    """The principal is not allowed to use the group."""


class ClusterAuthorizationFailedError(KafkaError):
    """The principal is not allowed to do this on the cluster."""


class InvalidTimestampError(KafkaError, UsageError, ValueError):
    """A record's timestamp is invalid, or outside the range that the topic allows."""


class BrokerUnsupportedVersionError(KafkaError, UnsupportedVersionError):
    """The broker does not support this version of the request."""


class InvalidRequestError(KafkaError):
    """The broker found the request malformed."""


class UnsupportedForMessageFormatError(KafkaError):
    """The topic's message format is too old for the request."""


class PolicyViolationError(KafkaError):
    """A policy of the broker refuses the request."""


class OutOfOrderSequenceNumberError(KafkaError):
    """The broker expected another sequence number of this idempotent producer."""


class DuplicateSequenceNumberError(KafkaError):
    """The broker already has the batch."""


class InvalidProducerEpochError(KafkaError):
    """A newer producer uses the same identity."""


class TransactionalIdAuthorizationFailedError(KafkaError, FatalTransactionError):
    """The principal is not allowed to use the transactional id."""


class KafkaStorageError(KafkaError):
    """The broker's disk failed; another replica will take over."""


class UnsupportedSaslMechanismError(KafkaError, AuthenticationError):
    """The broker does not offer the SASL mechanism on this listener."""


class IllegalSaslStateError(KafkaError, AuthenticationError):
    """The broker did not expect a login, or this step of it."""


class SaslAuthenticationFailedError(KafkaError, AuthenticationError):
    """The broker refused the credentials, or did not prove that it knows them."""


class UnknownProducerIdError(KafkaError):
    """The broker has no state for this idempotent producer (its records were deleted)."""


class FencedLeaderEpochError(KafkaError):
    """The client's leader epoch is older than the broker's."""


class UnknownLeaderEpochError(KafkaError):
    """The client's leader epoch is newer than the broker's."""


class UnsupportedCompressionTypeError(KafkaError):
    """The broker is too old for this compression."""


class InvalidRecordError(KafkaError):
    """The broker's validation refused a record (compacted topics require keys, for example)."""


class ThrottlingQuotaExceededError(KafkaError):
    """The quota is used up; try again later."""


class ProducerFencedError(KafkaError, FatalTransactionError):
    """A newer producer with the same transactional id took over, or the coordinator has aborted the
    transaction because it took longer than ``transaction_timeout_ms``."""


class UnknownTopicIdError(KafkaError):
    """The topic was deleted, or recreated with another id."""


class InconsistentTopicIdError(KafkaError):
    """The broker's log has a different topic id."""


class RebootstrapRequiredError(KafkaError):
    """The cluster asks the client to start again from the bootstrap servers (KIP-1102)."""


class InvalidTxnStateError(KafkaError):
    """The transaction is not open, or the record had to be part of a transaction and was not."""


class InvalidProducerIdMappingError(KafkaError):
    """The producer id does not belong to the transactional id."""


class ConcurrentTransactionsError(KafkaError):
    """The coordinator is still finishing the previous transaction."""


class ListenerNotFoundError(KafkaError):
    """The partition's leader has no listener with the name of the one that got the request."""


class TransactionAbortableError(KafkaError, AbortableTransactionError):
    """The transaction failed on the broker and must be aborted."""


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata of a consumed offset is longer than the broker allows."""


class IllegalGenerationError(KafkaError):
    """The consumer group has a newer generation."""


class InvalidGroupIdError(KafkaError):
    """The consumer group's name is invalid."""


class UnknownMemberIdError(KafkaError):
    """The consumer is no longer a member of its group."""


class InvalidTransactionTimeoutError(KafkaError, FatalTransactionError):
    """``transaction_timeout_ms`` is above the brokers' ``transaction.max.timeout.ms``."""


class OperationNotAttemptedError(KafkaError):
    """The broker did not attempt this, because of another error in the same request."""


class FencedInstanceIdError(KafkaError):
    """Another consumer has joined with the same ``group.instance.id``."""


class StaleMemberEpochError(KafkaError):
    """The consumer's epoch is older than its group's."""


class TopicAlreadyExistsError(KafkaError, UsageError, ValueError):
    """A topic with this name already exists."""


class InvalidPartitionsError(KafkaError, UsageError, ValueError):
    """A topic can't have this number of partitions."""


class InvalidReplicationFactorError(KafkaError, UsageError, ValueError):
    """The replication factor is below 1, or above the number of brokers."""


class InvalidReplicaAssignmentError(KafkaError, UsageError, ValueError):
    """The assignment of replicas to brokers contradicts itself, or names unknown brokers."""


class InvalidConfigError(KafkaError, UsageError, ValueError):
    """A topic or broker has no such configuration, or does not accept the value."""


class NotControllerError(KafkaError):
    """The broker is not, or no longer, the controller of the cluster."""


class ReassignmentInProgressError(KafkaError):
    """The topic's replicas are being moved; no other change is possible meanwhile."""


class GroupIdNotFoundError(KafkaError):
    """The consumer group does not exist."""


class NonEmptyGroupError(KafkaError):
    """The consumer group has members."""


class GroupSubscribedToTopicError(KafkaError):
    """Members of the consumer group are subscribed to the topic."""


class TopicDeletionDisabledError(KafkaError):
    """The brokers' ``delete.topic.enable`` is false."""


_DELIVERED, _TOO_LARGE = Disposition.DELIVERED, Disposition.TOO_LARGE
_MISNUMBERED, _UNSUPPORTED = Disposition.MISNUMBERED, Disposition.UNSUPPORTED
_RETRIABLE, _REFUSED = Disposition.RETRIABLE, Disposition.REFUSED
_TOPIC_REFUSED = Disposition.TOPIC_REFUSED
_FATAL = Disposition.FATAL
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
    Row(ErrorCode.UNKNOWN_SERVER_ERROR, UnknownServerError, _REFUSED, written=_MAYBE),
    Row(ErrorCode.OFFSET_OUT_OF_RANGE, OffsetOutOfRangeError, _REFUSED,
        advice="seek() to an offset that the log has, or set auto_offset_reset"),
    Row(ErrorCode.CORRUPT_MESSAGE, CorruptMessageError, _RETRIABLE,
        advice="the network or the broker's memory may be faulty"),
    Row(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicOrPartitionError, _RETRIABLE,
        refresh=True,
        advice="the topic or partition does not exist, or the brokers have not created it yet"),
    Row(ErrorCode.LEADER_NOT_AVAILABLE, LeaderNotAvailableError, _RETRIABLE,
        refresh=True, advice="the partition has no leader yet"),
    # A leader that is deposed while it waits for its followers says so of what it has written.
    Row(ErrorCode.NOT_LEADER_OR_FOLLOWER, NotLeaderOrFollowerError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.REQUEST_TIMED_OUT, RequestTimedOutError, _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.BROKER_NOT_AVAILABLE, BrokerNotAvailableError, _REFUSED),
    Row(ErrorCode.REPLICA_NOT_AVAILABLE, ReplicaNotAvailableError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.MESSAGE_TOO_LARGE, MessageTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's max.message.bytes"),
    Row(ErrorCode.NETWORK_EXCEPTION, NetworkExceptionError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.OFFSET_METADATA_TOO_LARGE, OffsetMetadataTooLargeError, _REFUSED),
    Row(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, CoordinatorLoadInProgressError, _RETRIABLE),
    Row(ErrorCode.COORDINATOR_NOT_AVAILABLE, CoordinatorNotAvailableError, _RETRIABLE),
    Row(ErrorCode.NOT_COORDINATOR, NotCoordinatorError, _RETRIABLE),
    Row(ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError, _TOPIC_REFUSED,
        advice="check the topic's name: it is invalid, or the topic is internal"),
    # Java fails such a batch. Batches that grow under load may be larger than a small segment.
    Row(ErrorCode.RECORD_LIST_TOO_LARGE, RecordListTooLargeError, _TOO_LARGE,
        advice="send smaller records, or raise the topic's segment.bytes"),
    Row(ErrorCode.NOT_ENOUGH_REPLICAS, NotEnoughReplicasError, _RETRIABLE),
    Row(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, NotEnoughReplicasAfterAppendError,
        _RETRIABLE, written=_MAYBE),
    Row(ErrorCode.INVALID_REQUIRED_ACKS, InvalidRequiredAcksError, _REFUSED),
    Row(ErrorCode.ILLEGAL_GENERATION, IllegalGenerationError, _REFUSED,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.INVALID_GROUP_ID, InvalidGroupIdError, _REFUSED),
    Row(ErrorCode.UNKNOWN_MEMBER_ID, UnknownMemberIdError, _REFUSED,
        advice="the group was rebalanced: the new owner of the partitions reads them again"),
    Row(ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailedError,
        _TOPIC_REFUSED,
        advice="the principal needs the DESCRIBE and WRITE permissions for the topic"),
    Row(ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailedError, _REFUSED,
        advice="the principal needs the READ permission for the group (DESCRIBE is enough to look "
        "up its offsets)"),
    Row(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ClusterAuthorizationFailedError, _FATAL,
        advice="the principal needs the IDEMPOTENT_WRITE permission, or set "
        "enable_idempotence=False"),
    Row(ErrorCode.INVALID_TIMESTAMP, InvalidTimestampError, _REFUSED,
        advice="check the timestamps, or the topic's message.timestamp.before.max.ms and "
        ".after.max.ms"),
    Row(ErrorCode.UNSUPPORTED_VERSION, BrokerUnsupportedVersionError, _UNSUPPORTED),
    Row(ErrorCode.INVALID_REQUEST, InvalidRequestError, _REFUSED),
    Row(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, UnsupportedForMessageFormatError,
        _REFUSED, advice="set the topic's message.format.version to 0.11.0 or newer, or "
        "enable_idempotence=False for records without headers"),
    Row(ErrorCode.POLICY_VIOLATION, PolicyViolationError, _REFUSED),
    # It says nothing about earlier attempts: after a restart a broker only knows the last batch.
    Row(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, OutOfOrderSequenceNumberError,
        _MISNUMBERED, advice="the broker can't tell whether an earlier attempt was written"),
    Row(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, DuplicateSequenceNumberError, _DELIVERED),
    Row(ErrorCode.INVALID_PRODUCER_EPOCH, InvalidProducerEpochError, _REFUSED,
        advice="a newer producer has the same identity, or its transaction was aborted because it "
        "took longer than transaction_timeout_ms"),
    Row(ErrorCode.INVALID_TXN_STATE, InvalidTxnStateError, _REFUSED,
        advice="the transaction is no longer open; it may have taken longer than "
        "transaction_timeout_ms"),
    Row(ErrorCode.INVALID_PRODUCER_ID_MAPPING, InvalidProducerIdMappingError, _FATAL,
        advice="the transactional id has another producer id now: a newer producer has used up "
        "the epochs of this one, nothing used the id for transactional.id.expiration.ms, or "
        "another cluster answers"),
    Row(ErrorCode.INVALID_TRANSACTION_TIMEOUT, InvalidTransactionTimeoutError, _FATAL,
        advice="lower transaction_timeout_ms, or raise the brokers' transaction.max.timeout.ms"),
    Row(ErrorCode.OPERATION_NOT_ATTEMPTED, OperationNotAttemptedError, _REFUSED),
    Row(ErrorCode.CONCURRENT_TRANSACTIONS, ConcurrentTransactionsError, _RETRIABLE),
    Row(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        TransactionalIdAuthorizationFailedError, _FATAL,
        advice="the principal needs the DESCRIBE and WRITE permissions for the transactional id"),
    # A disk may fail after the followers have read from it.
    Row(ErrorCode.KAFKA_STORAGE_ERROR, KafkaStorageError, _RETRIABLE,
        refresh=True, written=_MAYBE),
    Row(ErrorCode.UNSUPPORTED_SASL_MECHANISM, UnsupportedSaslMechanismError, _REFUSED,
        advice="set sasl_mechanism to one that this listener offers"),
    Row(ErrorCode.ILLEGAL_SASL_STATE, IllegalSaslStateError, _REFUSED,
        advice="check that security_protocol matches this listener"),
    Row(ErrorCode.SASL_AUTHENTICATION_FAILED, SaslAuthenticationFailedError, _REFUSED,
        advice="check the credentials, and that sasl_mechanism is right for them"),
    Row(ErrorCode.UNKNOWN_PRODUCER_ID, UnknownProducerIdError, _MISNUMBERED),
    Row(ErrorCode.LISTENER_NOT_FOUND, ListenerNotFoundError, _RETRIABLE, refresh=True),
    Row(ErrorCode.FENCED_LEADER_EPOCH, FencedLeaderEpochError, _RETRIABLE, refresh=True),
    Row(ErrorCode.UNKNOWN_LEADER_EPOCH, UnknownLeaderEpochError, _RETRIABLE),
    Row(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, UnsupportedCompressionTypeError, _REFUSED),
    Row(ErrorCode.INVALID_RECORD, InvalidRecordError, _REFUSED,
        advice="does the topic need keys (cleanup.policy=compact), or another timestamp?"),
    Row(ErrorCode.THROTTLING_QUOTA_EXCEEDED, ThrottlingQuotaExceededError, _RETRIABLE),
    Row(ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError, _REFUSED),
    Row(ErrorCode.PRODUCER_FENCED, ProducerFencedError, _FATAL,
        advice="a newer producer has the same transactional id, or the transaction took longer "
        "than transaction_timeout_ms"),
    Row(ErrorCode.UNKNOWN_TOPIC_ID, UnknownTopicIdError, _RETRIABLE, refresh=True),
    Row(ErrorCode.INCONSISTENT_TOPIC_ID, InconsistentTopicIdError, _RETRIABLE,
        refresh=True),
    Row(ErrorCode.STALE_MEMBER_EPOCH, StaleMemberEpochError, _REFUSED),
    Row(ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortableError, _REFUSED),
    Row(ErrorCode.REBOOTSTRAP_REQUIRED, RebootstrapRequiredError, Disposition.REBOOTSTRAP),
    # The answers to changes of topics and groups.
    Row(ErrorCode.TOPIC_ALREADY_EXISTS, TopicAlreadyExistsError, _REFUSED),
    Row(ErrorCode.INVALID_PARTITIONS, InvalidPartitionsError, _REFUSED),
    Row(ErrorCode.INVALID_REPLICATION_FACTOR, InvalidReplicationFactorError, _REFUSED,
        advice="the factor is from 1 to the number of brokers"),
    Row(ErrorCode.INVALID_REPLICA_ASSIGNMENT, InvalidReplicaAssignmentError, _REFUSED),
    Row(ErrorCode.INVALID_CONFIG, InvalidConfigError, _REFUSED,
        advice="check the names and values of the configuration"),
    Row(ErrorCode.NOT_CONTROLLER, NotControllerError, _RETRIABLE),
    Row(ErrorCode.REASSIGNMENT_IN_PROGRESS, ReassignmentInProgressError, _REFUSED,
        advice="try again when the replicas have moved"),
    Row(ErrorCode.NON_EMPTY_GROUP, NonEmptyGroupError, _REFUSED,
        advice="the group has members: stop them, and try again"),
    Row(ErrorCode.GROUP_ID_NOT_FOUND, GroupIdNotFoundError, _REFUSED,
        advice="check the group's id; a group without members and offsets disappears"),
    Row(ErrorCode.TOPIC_DELETION_DISABLED, TopicDeletionDisabledError, _REFUSED,
        advice="set the brokers' delete.topic.enable=true"),
    Row(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, GroupSubscribedToTopicError, _REFUSED,
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

_NEEDS: Final[Mapping[int, tuple[str, str, Mapping[str, str]]]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        "topic",
        "WRITE",
        {
            "CONSUMER_GROUP_HEARTBEAT": "DESCRIBE",
            "FETCH": "READ",
            "LIST_OFFSETS": "DESCRIBE",
            "METADATA": "DESCRIBE",
            "OFFSET_COMMIT": "READ",
            "OFFSET_FETCH": "DESCRIBE",
            "OFFSET_FOR_LEADER_EPOCH": "DESCRIBE",
            "TXN_OFFSET_COMMIT": "READ",
        },
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "group",
        "READ",
        {
            "DESCRIBE_GROUPS": "DESCRIBE",
            "FIND_COORDINATOR": "DESCRIBE",
            "OFFSET_FETCH": "DESCRIBE",
        },
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "transactional id",
        "WRITE",
        {"FIND_COORDINATOR": "DESCRIBE"},
    ),
}
"""The permission that a refused request lacks: the kind of the resource, the operation, and the
requests with another one. Source: Kafka's ``KafkaApis``."""

_INCLUDED: Final = {
    "topic": "READ and WRITE include",
    "group": "READ includes",
    "transactional id": "WRITE includes",
}
"""The operations that include DESCRIBE. Source: ``AclEntry`` of Kafka's ``StandardAuthorizer``."""


def _permission(code: int, request: IntEnum | None) -> str:
    """The permission that a refused ``request`` lacks; empty: the code is about something else."""
    if request is None or code not in _NEEDS:
        return ""
    resource, operation, others = _NEEDS[code]
    operation = others.get(request.name, operation)
    more = f", which {_INCLUDED[resource]}" if operation == "DESCRIBE" else ""
    return f"the principal needs the {operation} permission for the {resource}{more}"


def lacking(what: object, code: int, *operations: str) -> KafkaError:
    """The exception for missing permissions for ``what``, such as a topic, by their refusal."""
    resource, *_ = _NEEDS[code]
    several = "s" if len(operations) > 1 else ""
    needs = f"the principal needs the {' and '.join(operations)} permission{several}"
    return kafka_error(code, f"{what}: {code_name(code)}: {needs} for the {resource}")


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


def error_about(what: object, code: int, request: IntEnum | None = None) -> KafkaError:
    """The exception for a broker's error ``code`` about ``what``, such as a topic.

    ``request``: see :func:`explain`.
    """
    return kafka_error(code, f"{what}: {explain(code, request=request)}")


def explain(code: int, said: str | None = None, request: IntEnum | None = None) -> str:
    """An error code in words: its name, and what the broker said, or what to do about it.

    ``request``: the one that was refused; None: it may be any of a producer's.
    """
    row = _ROWS.get(code)
    more = said or _permission(code, request) or ("" if row is None else row.advice)
    return f"{code_name(code)}: {more}" if more else code_name(code)
