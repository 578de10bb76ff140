"""aioproducer: the Kafka producer that asyncio deserves.

The classes that a first record does not need are imported when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import aioproducer.interpreter as _interpreter  # noqa: F401  # refuses one without the GIL
from aioproducer import compiled as _compiled  # before what it chooses
from aioproducer import errors
from aioproducer.config import ProducerConfig
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
from aioproducer.records import acceleration
from aioproducer.version import __version__

if TYPE_CHECKING:
    from aioproducer.bulk.send_report import OffsetRange, SendReport
    from aioproducer.core.check import ClusterCheck, TopicCheck
    from aioproducer.core.health import BrokerHealth, Health
    from aioproducer.interceptors import ProducerInterceptor
    from aioproducer.partitioning import (
        ConsistentRandomPartitioner,
        Murmur3Partitioner,
        Partitioner,
        Partitions,
        RoundRobinPartitioner,
    )
    from aioproducer.serialization import Serializer

__accelerated__ = acceleration.ACCELERATED and _compiled.in_use()
"""True if the compiled innermost loops are in use."""

_MODULES = {
    "BrokerHealth": "aioproducer.core.health",
    "ClusterCheck": "aioproducer.core.check",
    "ConsistentRandomPartitioner": "aioproducer.partitioning",
    "Health": "aioproducer.core.health",
    "Murmur3Partitioner": "aioproducer.partitioning",
    "OffsetRange": "aioproducer.bulk.send_report",
    "Partitioner": "aioproducer.partitioning",
    "Partitions": "aioproducer.partitioning",
    "ProducerInterceptor": "aioproducer.interceptors",
    "RoundRobinPartitioner": "aioproducer.partitioning",
    "SendReport": "aioproducer.bulk.send_report",
    "Serializer": "aioproducer.serialization",
    "TopicCheck": "aioproducer.core.check",
}
"""The modules of the classes that are imported when they are first asked for."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


__all__ = [
    "AbortableTransactionError",
    "AuthenticationError",
    "BootstrapError",
    "BrokerHealth",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "CommitUnconfirmedError",
    "ClusterCheck",
    "ConfigError",
    "ConsistentRandomPartitioner",
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
