"""aioproducer: a Kafka producer for asyncio, and a consumer, a reader and an admin.

Classes that a first record does not need are imported on first access.
"""

from importlib import import_module
from sys import _getframe
from typing import TYPE_CHECKING, Any

import aioproducer.foundation.compiled as _compiled  # noqa: F401  # refuses one without the GIL
from aioproducer import errors
from aioproducer.config import ProducerConfig
from aioproducer.engine.records import acceleration  # before what is compiled: it chooses
from aioproducer.errors import (
    AbortableTransactionError,
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    CommitUnconfirmedError,
    ConfigError,
    DeliveryTimeoutError,
    FatalTransactionError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    ProtocolError,
    RecordTooLargeError,
    SerializationError,
    SslAuthenticationError,
    TokenEndpointError,
    TokenError,
    TransactionAbortedError,
    TransactionError,
    UsageError,
    WrongLoopError,
)
from aioproducer.foundation.version import __version__
from aioproducer.model import (
    ConsumerGroupMetadata,
    FailedRecord,
    Node,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.producer import Producer

if TYPE_CHECKING:
    # Only compiled modules import these, and PyInstaller sees no import of a compiled module.
    import aioproducer.engine.accumulator.producer_batch
    import aioproducer.engine.accumulator.results
    import aioproducer.engine.accumulator.topic
    import aioproducer.engine.records.field_reader
    import aioproducer.engine.sender.outcomes  # noqa: F401
    from aioproducer.admin import Admin
    from aioproducer.consumer import Consumer
    from aioproducer.engine.bulk.send_report import OffsetRange, SendReport
    from aioproducer.engine.core.health import BrokerHealth, Health
    from aioproducer.engine.core.queries import ClusterCheck, TopicCheck
    from aioproducer.engine.interceptors import ProducerInterceptor
    from aioproducer.engine.partitioning import (
        ConsistentRandomPartitioner,
        Murmur3Partitioner,
        Partitioner,
        Partitions,
        RoundRobinPartitioner,
    )
    from aioproducer.reader import Reader
    from aioproducer.serialization import Serializer

__accelerated__ = acceleration.is_compiled()
"""True if the compiled modules are in use: the innermost loops, and all that a batch passes."""

_MODULES = {
    "Admin": "aioproducer.admin",
    "BrokerHealth": "aioproducer.engine.core.health",
    "ClusterCheck": "aioproducer.engine.core.queries",
    "ConsistentRandomPartitioner": "aioproducer.engine.partitioning",
    "Consumer": "aioproducer.consumer",
    "Health": "aioproducer.engine.core.health",
    "Murmur3Partitioner": "aioproducer.engine.partitioning",
    "OffsetRange": "aioproducer.engine.bulk.send_report",
    "Partitioner": "aioproducer.engine.partitioning",
    "Partitions": "aioproducer.engine.partitioning",
    "ProducerInterceptor": "aioproducer.engine.interceptors",
    "Reader": "aioproducer.reader",
    "RoundRobinPartitioner": "aioproducer.engine.partitioning",
    "SendReport": "aioproducer.engine.bulk.send_report",
    "Serializer": "aioproducer.serialization",
    "TopicCheck": "aioproducer.engine.core.queries",
}
"""The modules of the classes that are imported when they are first asked for."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        from aioproducer.engine.client.elsewhere import no_such_name

        raise no_such_name(name, _getframe(1))
    globals()[name] = found = getattr(import_module(module), name)
    return found


_PUBLIC_MODULES = (
    "admin", "auth", "compat", "consumer", "failed_records", "loops", "observability", "reader",
    "schema_registry", "serialization", "spark", "sync", "testing",
)  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in _PUBLIC_MODULES if name in globals())])


__all__ = [
    "AbortableTransactionError",
    "Admin",
    "AuthenticationError",
    "BootstrapError",
    "BrokerHealth",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "CommitUnconfirmedError",
    "ClusterCheck",
    "ConfigError",
    "ConsistentRandomPartitioner",
    "Consumer",
    "ConsumerGroupMetadata",
    "DeliveryTimeoutError",
    "FailedRecord",
    "FatalTransactionError",
    "Health",
    "IllegalStateError",
    "InvalidOffsetError",
    "InvalidPartitionError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaError",
    "MetadataTimeoutError",
    "Murmur3Partitioner",
    "Node",
    "OffsetAndMetadata",
    "OffsetRange",
    "PartitionInfo",
    "Partitioner",
    "Partitions",
    "Producer",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerTimeoutError",
    "ProtocolError",
    "Reader",
    "RecordMetadata",
    "RecordTooLargeError",
    "RoundRobinPartitioner",
    "SendReport",
    "SerializationError",
    "Serializer",
    "SslAuthenticationError",
    "TokenEndpointError",
    "TokenError",
    "TopicCheck",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionHandle",
    "UsageError",
    "WrongLoopError",
    "__accelerated__",
    "__version__",
    "errors",
]
