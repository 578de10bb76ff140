"""The errors of broker responses: one class for each code that a producer can get.

:mod:`aioproducer.errors.table` defines their codes and dispositions.
"""

from __future__ import annotations

from typing import ClassVar

from aioproducer.errors.client import (
    AbortableTransactionError,
    AuthenticationError,
    FatalTransactionError,
    ProducerError,
    RecordTooLargeError,
    UnsupportedVersionError,
    UsageError,
)
from aioproducer.errors.codes import code_name
from aioproducer.errors.dispositions import Disposition, Written


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
