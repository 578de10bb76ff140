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

A :class:`KafkaError` has ``code``, ``name`` (Kafka's own), ``fate``, ``retriable`` and
``refresh_metadata``, all from one table: :mod:`aioproducer.errors.table`.
"""

from __future__ import annotations

from aioproducer.errors.broker import (
    BrokerNotAvailableError,
    BrokerUnsupportedVersionError,
    ClusterAuthorizationFailedError,
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    CorruptMessageError,
    DuplicateSequenceNumberError,
    FencedLeaderEpochError,
    GroupAuthorizationFailedError,
    InconsistentTopicIdError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    MessageTooLargeError,
    NetworkExceptionError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    PolicyViolationError,
    ProducerFencedError,
    RebootstrapRequiredError,
    RecordListTooLargeError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownProducerIdError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnlistedKafkaError,
    UnlistedRetriableError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
    code_name,
)
from aioproducer.errors.client import (
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    ConfigError,
    DeliveryTimeoutError,
    IllegalStateError,
    InvalidPartitionError,
    MetadataTimeoutError,
    MissingExtraError,
    NetworkError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    RequestTimeoutError,
    SerializationError,
    UnsupportedVersionError,
    UsageError,
    WrongLoopError,
)
from aioproducer.errors.fates import Fate, Written
from aioproducer.errors.table import explain, kafka_error

__all__ = [
    "BootstrapError",
    "BrokerConnectionError",
    "BrokerNotAvailableError",
    "BrokerUnsupportedVersionError",
    "BufferExhaustedError",
    "ClusterAuthorizationFailedError",
    "ConcurrentTransactionsError",
    "ConfigError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "CorruptMessageError",
    "DeliveryTimeoutError",
    "DuplicateSequenceNumberError",
    "FencedLeaderEpochError",
    "GroupAuthorizationFailedError",
    "IllegalStateError",
    "InconsistentTopicIdError",
    "InvalidPartitionError",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordError",
    "InvalidRequestError",
    "InvalidRequiredAcksError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTxnStateError",
    "KafkaError",
    "KafkaStorageError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "MessageTooLargeError",
    "MetadataTimeoutError",
    "MissingExtraError",
    "NetworkError",
    "NetworkExceptionError",
    "NotCoordinatorError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OutOfOrderSequenceNumberError",
    "PolicyViolationError",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerError",
    "ProducerFencedError",
    "ProducerTimeoutError",
    "ProtocolError",
    "RebootstrapRequiredError",
    "RecordListTooLargeError",
    "RecordTooLargeError",
    "ReplicaNotAvailableError",
    "RequestTimedOutError",
    "RequestTimeoutError",
    "SaslAuthenticationFailedError",
    "SerializationError",
    "ThrottlingQuotaExceededError",
    "TopicAuthorizationFailedError",
    "TransactionAbortableError",
    "TransactionalIdAuthorizationFailedError",
    "UnknownLeaderEpochError",
    "UnknownProducerIdError",
    "UnknownServerError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnlistedKafkaError",
    "UnlistedRetriableError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedVersionError",
    "UsageError",
    "WrongLoopError",
    "Fate",
    "explain",
    "Written",
    "code_name",
    "kafka_error",
]
