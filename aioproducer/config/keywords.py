"""The types that options are given in, wider than those they are held in.

A function that takes ``**options: Unpack[ProducerOptions]`` has keywords that type checkers and
editors know. The names are those of ``OptionTable``; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, TypedDict

from aioproducer.config.addresses import Address
from aioproducer.config.hooks import InterceptorOption, PartitionerOption, SerializerOption
from aioproducer.config.options import (
    CompressionType,
    DnsLookup,
    RecoveryStrategy,
    SecurityProtocol,
)
from aioproducer.config.secret import Secret

__all__ = ["AcksArgument", "ProducerOptions"]

AcksArgument: TypeAlias = Literal["all", "-1", "0", "1", -1, 0, 1]


class ProducerOptions(TypedDict, total=False):
    """Every option as keyword; ``bootstrap_servers`` alone is required."""

    bootstrap_servers: str | Iterable[str | Address]
    client_id: str | None
    acks: AcksArgument
    compression_type: CompressionType
    linger_ms: int | None
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: RecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    client_dns_lookup: DnsLookup
    send_buffer_bytes: int
    receive_buffer_bytes: int
    key_serializer: SerializerOption | None
    value_serializer: SerializerOption | None
    partitioner: PartitionerOption | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    interceptor_classes: Iterable[InterceptorOption]
    security_protocol: SecurityProtocol
    sasl_mechanism: str | None
    sasl_jaas_config: str | Secret | None
    transactional_id: str | None
    transaction_timeout_ms: int
    metrics_num_samples: int
    metrics_sample_window_ms: int
