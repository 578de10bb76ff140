"""Every exception that aioproducer raises.

::

    ProducerError
    ├── UsageError                              wrong use of the library; nothing was sent
    │   ├── ConfigError                         (ValueError)
    │   │   └── ColumnError                     a column and a schema do not fit
    │   ├── SerializationError                  (TypeError)
    │   │   ├── NotPreparedError                for serializers: ``prepare()`` is needed first
    │   │   └── RecordDeserializationError      the key or value of a record that was read
    │   ├── RecordTooLargeError                 (ValueError)
    │   ├── InvalidOffsetError                  (ValueError)
    │   ├── InvalidPartitionError               (ValueError)
    │   ├── ClientClosedError                   (RuntimeError)
    │   │   └── ProducerClosedError
    │   ├── IllegalStateError                   (RuntimeError)
    │   ├── WrongLoopError                      (RuntimeError)
    │   └── MissingExtraError                   (ImportError)
    ├── ProducerTimeoutError                    (TimeoutError)
    │   ├── DeliveryTimeoutError                the record's ``delivery_timeout_ms`` is over
    │   ├── BufferExhaustedError                no memory for the record within ``max_block_ms``
    │   ├── MetadataTimeoutError                no metadata for the topic within ``max_block_ms``
    │   ├── PreparationTimeoutError             no prepared serializer within ``max_block_ms``
    │   └── RequestTimeoutError                 one request; the producer retries it
    ├── RecordCancelledError                    the caller cancelled the record; for interceptors
    ├── NetworkError                            (ConnectionError)
    │   ├── BootstrapError                      no bootstrap server answered; lists each reason
    │   ├── BrokerConnectionError               a connection to a broker failed or broke
    │   ├── ProtocolError                       the peer does not speak Kafka
    │   └── TokenEndpointError                  the token endpoint did not answer
    ├── AuthenticationError                     a login failed, or a peer can't be trusted
    │   ├── SslAuthenticationError              the TLS handshake failed
    │   └── TokenError                          no token is available
    ├── CorruptRecordsError                     records that were read can't be decoded
    ├── LogTruncatedError                       records that were read are no longer in the log
    ├── TopicRecreatedError                     a topic was deleted and recreated while being read
    ├── UnsupportedVersionError                 the broker is too old or too new for a request
    ├── TransactionError
    │   ├── AbortableTransactionError           the transaction failed; the next one can succeed
    │   │   └── TransactionAbortedError         a record of an aborted transaction, not sent
    │   ├── CommitUnconfirmedError              (ProducerTimeoutError)
    │   └── FatalTransactionError               the producer cannot begin another transaction
    ├── SchemaRegistryError                     a schema registry refused or sent a bad response
    │   ├── SchemaRegistryUnavailableError      (ConnectionError) unreachable, or timed out
    │   ├── SchemaRegistryAuthenticationError   the registry does not accept the credentials
    │   ├── IncompatibleSchemaError             the schema is incompatible with earlier versions
    │   ├── SchemaNotFoundError                 the registry has no such subject, version or schema
    │   └── InvalidSchemaError                  the registry can't parse the schema
    ├── ClientBrokenError                       a part of the client failed; see ``__cause__``
    │   └── ProducerBrokenError
    └── KafkaError                              an error code of a broker; one class per code

A :class:`KafkaError` has the attributes ``code``, ``name`` (Kafka's name), ``disposition``,
``retriable`` and ``refresh_metadata``. They come from one table: :mod:`aioproducer.errors.broker`.
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
    FencedInstanceIdError,
    FencedLeaderEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    IllegalSaslStateError,
    InconsistentTopicIdError,
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidPartitionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidRecordError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    MessageTooLargeError,
    NetworkExceptionError,
    NonEmptyGroupError,
    NotControllerError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetMetadataTooLargeError,
    OffsetOutOfRangeError,
    OperationNotAttemptedError,
    OutOfOrderSequenceNumberError,
    PolicyViolationError,
    ProducerFencedError,
    ReassignmentInProgressError,
    RebootstrapRequiredError,
    RecordListTooLargeError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    StaleMemberEpochError,
    ThrottlingQuotaExceededError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    TopicDeletionDisabledError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownLeaderEpochError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnlistedKafkaError,
    UnlistedRetriableError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
    UnsupportedSaslMechanismError,
    code_name,
    kafka_error,
)
from aioproducer.errors.client import (
    AbortableTransactionError,
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    ClientBrokenError,
    ClientClosedError,
    ColumnError,
    CommitUnconfirmedError,
    ConfigError,
    CorruptRecordsError,
    DeliveryTimeoutError,
    Disposition,
    FatalTransactionError,
    IllegalStateError,
    IncompatibleSchemaError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidSchemaError,
    LogTruncatedError,
    MetadataTimeoutError,
    MissingExtraError,
    NetworkError,
    NotPreparedError,
    PreparationTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
    ProtocolError,
    RecordCancelledError,
    RecordDeserializationError,
    RecordTooLargeError,
    RequestTimeoutError,
    SchemaNotFoundError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    SerializationError,
    SslAuthenticationError,
    TokenEndpointError,
    TokenError,
    TopicRecreatedError,
    TransactionAbortedError,
    TransactionError,
    UnsupportedVersionError,
    UsageError,
    Written,
    WrongLoopError,
)

__all__ = [
    "AbortableTransactionError",
    "AuthenticationError",
    "BootstrapError",
    "BrokerConnectionError",
    "BrokerNotAvailableError",
    "BrokerUnsupportedVersionError",
    "BufferExhaustedError",
    "ClientBrokenError",
    "ClientClosedError",
    "ClusterAuthorizationFailedError",
    "CommitUnconfirmedError",
    "ConcurrentTransactionsError",
    "ConfigError",
    "ColumnError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "CorruptMessageError",
    "CorruptRecordsError",
    "DeliveryTimeoutError",
    "DuplicateSequenceNumberError",
    "FatalTransactionError",
    "Disposition",
    "FencedInstanceIdError",
    "FencedLeaderEpochError",
    "GroupAuthorizationFailedError",
    "GroupIdNotFoundError",
    "GroupSubscribedToTopicError",
    "IllegalGenerationError",
    "IllegalSaslStateError",
    "IllegalStateError",
    "IncompatibleSchemaError",
    "InconsistentTopicIdError",
    "InvalidConfigError",
    "InvalidGroupIdError",
    "InvalidOffsetError",
    "InvalidPartitionError",
    "InvalidPartitionsError",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordError",
    "InvalidReplicaAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidRequiredAcksError",
    "InvalidSchemaError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "InvalidTransactionTimeoutError",
    "InvalidTxnStateError",
    "KafkaError",
    "KafkaStorageError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "LogTruncatedError",
    "MessageTooLargeError",
    "MetadataTimeoutError",
    "MissingExtraError",
    "NetworkError",
    "NotPreparedError",
    "PreparationTimeoutError",
    "NetworkExceptionError",
    "NonEmptyGroupError",
    "NotControllerError",
    "NotCoordinatorError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OffsetMetadataTooLargeError",
    "OffsetOutOfRangeError",
    "OperationNotAttemptedError",
    "OutOfOrderSequenceNumberError",
    "PolicyViolationError",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerError",
    "ProducerFencedError",
    "ProducerTimeoutError",
    "ProtocolError",
    "ReassignmentInProgressError",
    "RebootstrapRequiredError",
    "RecordListTooLargeError",
    "RecordCancelledError",
    "RecordDeserializationError",
    "RecordTooLargeError",
    "ReplicaNotAvailableError",
    "RequestTimedOutError",
    "RequestTimeoutError",
    "SaslAuthenticationFailedError",
    "SchemaNotFoundError",
    "SchemaRegistryAuthenticationError",
    "SchemaRegistryError",
    "SchemaRegistryUnavailableError",
    "SerializationError",
    "SslAuthenticationError",
    "StaleMemberEpochError",
    "ThrottlingQuotaExceededError",
    "TokenEndpointError",
    "TokenError",
    "TopicAlreadyExistsError",
    "TopicAuthorizationFailedError",
    "TopicDeletionDisabledError",
    "TopicRecreatedError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionalIdAuthorizationFailedError",
    "UnknownLeaderEpochError",
    "UnknownMemberIdError",
    "UnknownProducerIdError",
    "UnknownServerError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnlistedKafkaError",
    "UnlistedRetriableError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "UsageError",
    "Written",
    "WrongLoopError",
    "code_name",
    "kafka_error",
]
