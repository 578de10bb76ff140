"""Every exception that aioproducer raises.

::

    ProducerError
    ├── UsageError                              wrong use of the library; nothing was sent
    │   ├── ConfigError                         (ValueError)
    │   ├── SerializationError                  (TypeError)
    │   ├── RecordTooLargeError                 (ValueError)
    │   ├── InvalidPartitionError               (ValueError)
    │   ├── ProducerClosedError                 (RuntimeError)
    │   ├── IllegalStateError                   (RuntimeError)
    │   ├── WrongLoopError                      (RuntimeError)
    │   └── MissingExtraError                   (ImportError)
    ├── ProducerTimeoutError                    (TimeoutError)
    │   ├── DeliveryTimeoutError                the record's ``delivery_timeout_ms`` is over
    │   ├── BufferExhaustedError                no memory for the record within ``max_block_ms``
    │   ├── MetadataTimeoutError                no metadata for the topic within ``max_block_ms``
    │   └── RequestTimeoutError                 one request; retried by the producer itself
    ├── NetworkError                            (ConnectionError)
    │   ├── BootstrapError                      no bootstrap server answered; each with its reason
    │   ├── BrokerConnectionError               one broker's connection failed or broke
    │   └── ProtocolError                       the peer does not speak Kafka
    ├── UnsupportedVersionError                 the broker is too old or too new for a request
    ├── ProducerBrokenError                     a part of the producer died; see ``__cause__``
    └── KafkaError                              an error code of a broker; one class per code

A :class:`KafkaError` has ``code``, ``name`` (Kafka's own), ``retriable`` and ``refresh_metadata``.
"""

from __future__ import annotations

from typing import ClassVar, Final

from kio.schema.errors import ErrorCode

__all__ = [
    "BootstrapError",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "ConfigError",
    "DeliveryTimeoutError",
    "IllegalStateError",
    "InvalidPartitionError",
    "KafkaError",
    "MetadataTimeoutError",
    "MissingExtraError",
    "NetworkError",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerError",
    "ProducerTimeoutError",
    "ProtocolError",
    "RecordTooLargeError",
    "RequestTimeoutError",
    "SerializationError",
    "UnsupportedVersionError",
    "UsageError",
    "WrongLoopError",
    "kafka_error",
]


class ProducerError(Exception):
    """The root: ``except ProducerError`` catches everything that this library raises."""

    retriable: ClassVar[bool] = False
    """Whether the producer itself tries again until ``delivery_timeout_ms``."""
    refresh_metadata: ClassVar[bool] = False
    """Whether the error says that the known leaders are out of date."""
    may_have_been_written: bool = False
    """Whether the record may be in the log all the same. False: it never left, or the broker
    refused it. True: it was on its way when it was given up, and nobody said what became of it."""


class UsageError(ProducerError):
    """The library was used wrongly. Nothing was sent."""


class ConfigError(UsageError, ValueError):
    """An option is unknown, out of range, or contradicts another one."""


class SerializationError(UsageError, TypeError):
    """A key, value or header could not be turned into bytes."""


class RecordTooLargeError(UsageError, ValueError):
    """A record is larger than ``max_request_size``, ``buffer_memory`` or the broker allows."""


class InvalidPartitionError(UsageError, ValueError):
    """The partition is not one of the topic's."""


class ProducerClosedError(UsageError, RuntimeError):
    """The producer is closed, or was closed before the record was delivered."""


class IllegalStateError(UsageError, RuntimeError):
    """The call does not fit the producer's state (not started, started twice, …)."""


class WrongLoopError(UsageError, RuntimeError):
    """The producer belongs to another event loop, thread or process."""


class MissingExtraError(UsageError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class ProducerTimeoutError(ProducerError, TimeoutError):
    """The root of the timeouts."""


class DeliveryTimeoutError(ProducerTimeoutError):
    """The record was not acknowledged within ``delivery_timeout_ms``."""


class BufferExhaustedError(ProducerTimeoutError):
    """``buffer_memory`` is used up; ``await producer.drain()`` before sending more."""


class MetadataTimeoutError(ProducerTimeoutError):
    """The topic's metadata did not arrive within ``max_block_ms``."""


class RequestTimeoutError(ProducerTimeoutError):
    """A broker did not answer within ``request_timeout_ms``; its connection was closed."""

    retriable = True
    refresh_metadata = True


class NetworkError(ProducerError, ConnectionError):
    """The root of what goes wrong between us and a broker."""

    retriable = True
    refresh_metadata = True


class BootstrapError(NetworkError):
    """None of ``bootstrap_servers`` answered; the message gives each address its reason."""


class BrokerConnectionError(NetworkError):
    """A broker could not be reached, or its connection broke."""


class ProtocolError(NetworkError):
    """The peer sent bytes that are not Kafka's protocol; its connection was closed."""


class UnsupportedVersionError(ProducerError):
    """Broker and client share no version of a request, or the version lacks what was asked."""


class ProducerBrokenError(ProducerError):
    """A task of the producer ended in an unexpected error (``__cause__``). Make a new producer."""


_BY_CODE: Final[dict[int, type[KafkaError]]] = {}
_RETRIABLE: Final = frozenset(int(code) for code in ErrorCode if code.retriable)


class KafkaError(ProducerError):
    """A broker's answer with an error code.

    Each code has its subclass; :func:`kafka_error` finds it. Source: Kafka's ``Errors``.
    """

    code: int = ErrorCode.unknown_server_error
    """Kafka's number of the error."""

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        super().__init_subclass__()
        if code is None:
            return
        if code in _BY_CODE:
            raise TypeError(f"{_BY_CODE[code].__name__} already stands for error code {code}")
        cls.code = int(code)
        cls.retriable = code.retriable
        _BY_CODE[code] = cls

    @property
    def name(self) -> str:
        """Kafka's name of the error, such as ``NOT_LEADER_OR_FOLLOWER``."""
        return ErrorCode(self.code).name.upper()


class UnknownServerError(KafkaError, code=ErrorCode.unknown_server_error):
    """The broker met an error that it did not expect; its log says which."""


class UnlistedKafkaError(KafkaError):
    """A broker answered with a code that has no class here: no producer is meant to get it."""

    @property
    def name(self) -> str:
        return code_name(self.code)


class UnlistedRetriableError(UnlistedKafkaError):
    """The same, of a code that Kafka calls retriable."""

    retriable = True


class CorruptMessageError(KafkaError, code=ErrorCode.corrupt_message):
    """The batch arrived with a wrong checksum."""


class UnknownTopicOrPartitionError(KafkaError, code=ErrorCode.unknown_topic_or_partition):
    """The topic does not exist, or the broker does not host the partition."""

    refresh_metadata = True


class LeaderNotAvailableError(KafkaError, code=ErrorCode.leader_not_available):
    """The partition has no leader: an election is under way."""

    refresh_metadata = True


class NotLeaderOrFollowerError(KafkaError, code=ErrorCode.not_leader_or_follower):
    """The broker no longer leads the partition."""

    refresh_metadata = True


class RequestTimedOutError(KafkaError, code=ErrorCode.request_timed_out):
    """The broker did not get enough replicas to acknowledge in time."""


class BrokerNotAvailableError(KafkaError, code=ErrorCode.broker_not_available):
    """The broker is not available."""


class ReplicaNotAvailableError(KafkaError, code=ErrorCode.replica_not_available):
    """The replica is not available on the broker."""

    refresh_metadata = True


class MessageTooLargeError(KafkaError, RecordTooLargeError, code=ErrorCode.message_too_large):
    """The batch is larger than the topic's ``max.message.bytes``."""


class NetworkExceptionError(KafkaError, code=ErrorCode.network_exception):
    """The broker lost a connection while it answered."""

    refresh_metadata = True


class CoordinatorLoadInProgressError(KafkaError, code=ErrorCode.coordinator_load_in_progress):
    """The coordinator is still loading its state."""


class CoordinatorNotAvailableError(KafkaError, code=ErrorCode.coordinator_not_available):
    """The coordinator is not available yet."""


class NotCoordinatorError(KafkaError, code=ErrorCode.not_coordinator):
    """The broker is not the coordinator asked for."""


class InvalidTopicError(KafkaError, UsageError, ValueError, code=ErrorCode.invalid_topic_exception):
    """The topic's name is not legal, or the topic may not be written to."""


class RecordListTooLargeError(
    KafkaError, RecordTooLargeError, code=ErrorCode.record_list_too_large
):
    """The batch is larger than the topic's segment size."""


class NotEnoughReplicasError(KafkaError, code=ErrorCode.not_enough_replicas):
    """Fewer replicas are in sync than ``min.insync.replicas`` asks for; nothing was written."""


class NotEnoughReplicasAfterAppendError(
    KafkaError, code=ErrorCode.not_enough_replicas_after_append
):
    """The leader wrote the batch, then found too few replicas in sync."""


class InvalidRequiredAcksError(KafkaError, code=ErrorCode.invalid_required_acks):
    """The broker does not take this value of ``acks``."""


class TopicAuthorizationFailedError(KafkaError, code=ErrorCode.topic_authorization_failed):
    """The principal may not write to (or describe) the topic."""


class GroupAuthorizationFailedError(KafkaError, code=ErrorCode.group_authorization_failed):
    """The principal may not use the group."""


class ClusterAuthorizationFailedError(KafkaError, code=ErrorCode.cluster_authorization_failed):
    """The principal may not do this on the cluster."""


class InvalidTimestampError(KafkaError, UsageError, ValueError, code=ErrorCode.invalid_timestamp):
    """A record's timestamp is no time, or outside the range that the topic allows."""


class BrokerUnsupportedVersionError(
    KafkaError, UnsupportedVersionError, code=ErrorCode.unsupported_version
):
    """The broker does not know this version of the request."""


class InvalidRequestError(KafkaError, code=ErrorCode.invalid_request):
    """The broker found the request malformed."""


class UnsupportedForMessageFormatError(KafkaError, code=ErrorCode.unsupported_for_message_format):
    """The topic's message format is too old for the request."""


class PolicyViolationError(KafkaError, code=ErrorCode.policy_violation):
    """A policy of the broker refuses the request."""


class OutOfOrderSequenceNumberError(KafkaError, code=ErrorCode.out_of_order_sequence_number):
    """The broker expected another sequence number of this idempotent producer."""


class DuplicateSequenceNumberError(KafkaError, code=ErrorCode.duplicate_sequence_number):
    """The broker has the batch already."""


class InvalidProducerEpochError(KafkaError, code=ErrorCode.invalid_producer_epoch):
    """A newer producer uses the same identity."""


class TransactionalIdAuthorizationFailedError(
    KafkaError, code=ErrorCode.transactional_id_authorization_failed
):
    """The principal may not use the transactional id."""


class KafkaStorageError(KafkaError, code=ErrorCode.kafka_storage_error):
    """The broker's disk failed; another replica takes over."""

    refresh_metadata = True


class SaslAuthenticationFailedError(KafkaError, code=ErrorCode.sasl_authentication_failed):
    """The broker refused the credentials."""


class UnknownProducerIdError(KafkaError, code=ErrorCode.unknown_producer_id):
    """The broker has no state of this idempotent producer (its records were deleted)."""


class FencedLeaderEpochError(KafkaError, code=ErrorCode.fenced_leader_epoch):
    """The client's leader epoch is older than the broker's."""

    refresh_metadata = True


class UnknownLeaderEpochError(KafkaError, code=ErrorCode.unknown_leader_epoch):
    """The client's leader epoch is newer than the broker's."""

    refresh_metadata = True


class UnsupportedCompressionTypeError(KafkaError, code=ErrorCode.unsupported_compression_type):
    """The broker is too old for this compression."""


class InvalidRecordError(KafkaError, code=ErrorCode.invalid_record):
    """The broker's validation refused a record (a compacted topic needs keys, for one)."""


class ThrottlingQuotaExceededError(KafkaError, code=ErrorCode.throttling_quota_exceeded):
    """The quota is used up; try again later."""


class ProducerFencedError(KafkaError, code=ErrorCode.producer_fenced):
    """A newer producer with the same transactional id took over."""


class UnknownTopicIdError(KafkaError, code=ErrorCode.unknown_topic_id):
    """The topic was deleted, or made anew under another id."""

    refresh_metadata = True


class InconsistentTopicIdError(KafkaError, code=ErrorCode.inconsistent_topic_id):
    """The broker's log has another topic id."""

    refresh_metadata = True


class RebootstrapRequiredError(KafkaError, code=ErrorCode.rebootstrap_required):
    """The cluster asks the client to start again from the bootstrap servers (KIP-1102)."""


def kafka_error(code: int, message: str) -> KafkaError:
    """The exception for a broker's error ``code``, with ``message`` as its text."""
    known = _BY_CODE.get(code)
    if known is not None:
        return known(message)
    retriable = code in _RETRIABLE
    error = UnlistedRetriableError(message) if retriable else UnlistedKafkaError(message)
    error.code = int(code)
    return error


def code_name(code: int) -> str:
    """Kafka's name of an error code, such as ``NOT_LEADER_OR_FOLLOWER``."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"ERROR_{code}"
