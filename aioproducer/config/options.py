"""The option table. Every option and every default value of the producer stands here, once, and
those of security in ``security_options.py``.

Names, defaults, ranges and importance are those of ``org.apache.kafka.clients.producer.
ProducerConfig`` in Kafka 4.4; ``kafka_default`` marks where a default differs and the meaning says
why. The string under a field is its meaning: editors show it, and ``document.py`` prints it.
"""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from aioproducer.config.addresses import Address
from aioproducer.config.failure_hook import FailureHook, FailureHookOption
from aioproducer.config.java_serializers import JavaSerializer
from aioproducer.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Acks,
    Addresses,
    Boolean,
    Bytes,
    Choice,
    Integer,
    InterceptorOption,
    Interceptors,
    Milliseconds,
    Nullable,
    Partitioner,
    PartitionerOption,
    Serializer,
    SerializerOption,
    Text,
)
from aioproducer.config.option import Group, Importance, option, options_of, required_option
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import ProxyUrl
from aioproducer.config.security_options import TokenOptions

__all__ = [
    "ADAPTIVE_LINGER_MS",
    "LARGEST_BATCH",
    "SMALLEST_BATCH",
    "OPTIONS",
    "AcksOption",
    "CompressionType",
    "DnsLookup",
    "OptionTable",
    "RecoveryStrategy",
    "SecurityProtocol",
]

_LONGEST_STRING: Final = 32_767
"""The longest string in Kafka's protocol, in bytes."""

ADAPTIVE_LINGER_MS: Final = 5
"""The longest that a batch waits while ``linger_ms`` is None, in milliseconds."""

SMALLEST_BATCH: Final = 16_000
LARGEST_BATCH: Final = 64 * SMALLEST_BATCH
"""The bounds of a batch while ``batch_size`` is None, in bytes. ``max_request_size`` and
``buffer_memory`` may lower them. Compression may enlarge data that is random, and the largest batch
then still fits into a broker's default ``message.max.bytes``, 1,048,588."""

AcksOption = Literal["all", "1", "0"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DnsLookup = Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
RecoveryStrategy = Literal["rebootstrap", "none"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class OptionTable(TokenOptions):
    """The options with the types that :class:`ProducerConfig` holds them in; those of TLS, logins
    and tokens stand in files of their own."""

    bootstrap_servers: tuple[Address, ...] = required_option(Addresses(), Group.ESSENTIALS, HIGH)
    """The brokers to ask first; they tell the rest of the cluster, so two or three are enough.
    IPv6 addresses stand in brackets: `[::1]:9092`."""

    client_id: str | None = option(
        Nullable(Text(most=_LONGEST_STRING)), None, Group.ESSENTIALS, MEDIUM
    )
    """The name in the brokers' logs, quotas and metrics. None makes up `producer-N`."""

    acks: AcksOption = option(Acks(AcksOption), "all", Group.ESSENTIALS)
    """The replicas that make a record delivered: `all` in-sync ones, `1` the leader alone, `0` none
    (offsets are then unknown, and losses unnoticed)."""

    compression_type: CompressionType = option(
        Choice(CompressionType), "none", Group.ESSENTIALS, HIGH
    )
    """The codec that compresses whole batches; larger batches compress better."""

    linger_ms: int | None = option(
        Nullable(Milliseconds(0, LONG_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="5"
    )
    """The time that a batch waits for more records, if not full. None adapts: nearly none while
    nothing is in flight to the broker (up to 1 ms while each iteration of a busy event loop brings
    records), else up to 5 ms. A number has exactly Kafka's meaning. Kafka waits 5 ms always, which
    an application that awaits each send would pay every time."""

    batch_size: int | None = option(
        Nullable(Bytes(0, INT_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="16384"
    )
    """The size of a batch, before compression. None adapts: 16 KB at first, and up to 1 MB while
    batches fill before they can leave. A number has exactly Kafka's meaning: a larger record gets a
    batch of its own, and 0 makes every batch hold one record."""

    buffer_memory: int = option(Bytes(1, LONG_MAX), 33554432, Group.BATCHING, HIGH)
    """Bound on the memory for records that are not delivered yet. One quarter is kept for records
    that wait for a batch, so a number for `batch_size` must fit into three quarters."""

    max_block_ms: int = option(Milliseconds(0, LONG_MAX), 60000, Group.BATCHING, MEDIUM)
    """The time that a record waits for its topic's metadata and memory before it fails. The call
    of `send()` itself never blocks."""

    max_request_size: int = option(Bytes(1, INT_MAX), 1048576, Group.BATCHING, MEDIUM)
    """Bound on a produce request, and on a record before compression. Brokers have a bound of
    their own, `message.max.bytes`."""

    compression_gzip_level: int = option(Integer(1, 9, also=-1), -1, Group.BATCHING, MEDIUM)
    """From fast to small; -1 is zlib's own default."""

    compression_lz4_level: int = option(Integer(1, 17), 9, Group.BATCHING, MEDIUM)
    """From fast to small."""

    compression_zstd_level: int = option(Integer(-131072, 22), 3, Group.BATCHING, MEDIUM)
    """From fast to small."""

    enable_idempotence: bool = option(Boolean(), True, Group.DELIVERY)
    """Every record is written exactly once and in order, across retries. Needs `acks="all"`,
    `retries` above 0 and at most 5 requests in flight. Unless set, it gives way to a conflicting
    `acks` or `retries`."""

    max_in_flight_requests_per_connection: int = option(Integer(1, INT_MAX), 5, Group.DELIVERY)
    """Requests sent to one broker without waiting for the answer to the first. Without
    idempotence, more than 1 can change the order of records on a retry."""

    delivery_timeout_ms: int = option(Milliseconds(0, INT_MAX), 120000, Group.DELIVERY, MEDIUM)
    """From `send()` to a record's delivery or failure, retries included. At least `linger_ms` plus
    `request_timeout_ms`; unless set, it grows to their sum."""

    request_timeout_ms: int = option(Milliseconds(0, INT_MAX), 30000, Group.DELIVERY, MEDIUM)
    """The time that a broker has to answer before its connection is closed and the request is
    retried. Should exceed the brokers' `replica.lag.time.max.ms`."""

    retries: int = option(Integer(0, INT_MAX), INT_MAX, Group.DELIVERY, HIGH)
    """The number of retries of a batch after an error that may pass. Prefer to bound the time by
    `delivery_timeout_ms`."""

    retry_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 100, Group.DELIVERY)
    """Wait before the first retry; doubles with each further one, with 20 % jitter."""

    retry_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 1000, Group.DELIVERY)
    """The longest wait between retries."""

    metadata_max_age_ms: int = option(Milliseconds(0, LONG_MAX), 300000, Group.METADATA)
    """After this time metadata is fetched anew even if nothing went wrong, to notice new brokers
    and partitions."""

    metadata_max_idle_ms: int = option(Milliseconds(5000, LONG_MAX), 300000, Group.METADATA)
    """A topic that nothing was sent to for this time is forgotten."""

    bootstrap_resolve_timeout_ms: int = option(Milliseconds(0, LONG_MAX), 0, Group.METADATA, HIGH)
    """Above 0, `start()` waits for this time until a name in `bootstrap_servers` can be resolved;
    then it raises `BootstrapError`. With 0 it does not wait: names are looked up at each attempt to
    connect, and a record waits for `max_block_ms` (KIP-909)."""

    metadata_recovery_strategy: RecoveryStrategy = option(
        Choice(RecoveryStrategy), "rebootstrap", Group.METADATA
    )
    """The reaction when no known broker can be reached: `rebootstrap` starts again from
    `bootstrap_servers`, `none` keeps trying the known ones."""

    metadata_recovery_rebootstrap_trigger_ms: int = option(
        Milliseconds(0, LONG_MAX), 300000, Group.METADATA
    )
    """With `rebootstrap`: start again from `bootstrap_servers` also when metadata could not be
    fetched for this time (KIP-1102)."""

    metadata_cluster_check_enable: bool = option(Boolean(), True, Group.METADATA)
    """A client keeps to the first cluster that answered it, and to the brokers that it was told of.
    A connection that reaches another broker (swapped ports, recycled addresses) is closed after the
    login and before a record is sent there (KIP-1242). Metadata of another cluster is refused, also
    from `bootstrap_servers`. Brokers check connections since Kafka 4.4; an older one of another
    cluster may get records until its metadata comes. Without effect if
    `metadata_recovery_strategy="none"`."""

    reconnect_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 50, Group.NETWORK)
    """Wait before connecting again to the same broker; doubles with each failure, with 20 %
    jitter. Set alone, it is also the maximum."""

    reconnect_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 1000, Group.NETWORK)
    """The longest wait between connection attempts to one broker."""

    socket_connection_setup_timeout_ms: int = option(
        Milliseconds(1, LONG_MAX), 10000, Group.NETWORK, MEDIUM
    )
    """Bound on establishing a connection; doubles with each failure, with 20 % jitter."""

    socket_connection_setup_timeout_max_ms: int = option(
        Milliseconds(1, LONG_MAX), 30000, Group.NETWORK, MEDIUM
    )
    """The longest bound on establishing a connection."""

    connections_max_idle_ms: int = option(
        Milliseconds(0, LONG_MAX, also=-1), 540000, Group.NETWORK, MEDIUM
    )
    """A connection unused for this time is closed; -1 never. The default is below the brokers'
    own 10 minutes."""

    client_dns_lookup: DnsLookup = option(
        Choice(DnsLookup), "use_all_dns_ips", Group.NETWORK, MEDIUM
    )
    """`use_all_dns_ips` tries all addresses of a name, side by side; the other also replaces each
    bootstrap server by the canonical names of its addresses (for Kerberos)."""

    proxy_url: Secret | None = option(Nullable(ProxyUrl()), None, Group.NETWORK, MEDIUM)
    """The proxy of all connections to brokers (kafka-python's name): `socks5h://host:port` and
    `http://host:port` (CONNECT) have the proxy resolve the brokers' names, `socks5://host:port`
    resolves them here. A login stands before the host, `user:password@`. The port of SOCKS5 is 1080
    unless it is written. Environment variables such as `ALL_PROXY` are not read."""

    send_buffer_bytes: int = option(Bytes(0, INT_MAX, also=-1), 131072, Group.NETWORK, MEDIUM)
    """The socket's send buffer (SO_SNDBUF); -1 leaves it to the system."""

    receive_buffer_bytes: int = option(Bytes(0, INT_MAX, also=-1), 32768, Group.NETWORK, MEDIUM)
    """The socket's receive buffer (SO_RCVBUF); -1 leaves it to the system."""

    key_serializer: SerializerOption | JavaSerializer | None = option(
        Serializer("key_serializer"), None, Group.HOOKS, HIGH, kafka_default="required"
    )
    """Turns keys into bytes. None: bytes-like keys pass as they are, str as UTF-8."""

    value_serializer: SerializerOption | JavaSerializer | None = option(
        Serializer("value_serializer"), None, Group.HOOKS, HIGH, kafka_default="required"
    )
    """Turns values into bytes. None: bytes-like values pass as they are, str as UTF-8."""

    partitioner: PartitionerOption | None = option(
        Partitioner(), None, Group.HOOKS, MEDIUM, java_name="partitioner.class"
    )
    """Chooses the partition of a record that does not name one. None: by the key's murmur2 hash as
    every Java client does; without key, a sticky partition that changes after the bytes of a full
    batch (KIP-794)."""

    partitioner_ignore_keys: bool = option(Boolean(), False, Group.HOOKS, MEDIUM)
    """Treat keyed records as if they had no key. No effect with a `partitioner` of your own."""

    partitioner_adaptive_partitioning_enable: bool = option(Boolean(), True, Group.HOOKS)
    """Records without key go more often to the brokers that answer faster. No effect with a
    `partitioner` of your own."""

    partitioner_availability_timeout_ms: int = option(Milliseconds(0, LONG_MAX), 0, Group.HOOKS)
    """Records without key avoid a partition whose broker has taken nothing for this time; 0 never
    avoids one. No effect with a `partitioner` of your own or without adaptive partitioning."""

    partitioner_rack_aware: bool = option(Boolean(), False, Group.HOOKS)
    """Records without key go to partitions whose leader is in `client_rack`, while there are any
    (KIP-1123). No effect with a `partitioner` of your own."""

    client_rack: str = option(Text(), "", Group.HOOKS)
    """The rack of this client, as `broker.rack` names those of brokers. A producer needs
    `partitioner_rack_aware` as well. A reader gets records from a replica in this rack, if the
    brokers have a rack-aware `replica.selector.class` (KIP-392)."""

    interceptor_classes: tuple[InterceptorOption, ...] = option(Interceptors(), (), Group.HOOKS)
    """See every record before it is serialized, and every outcome, that of a failed record with its
    topic and partition; called in this order. An `on_acknowledgement` with a parameter `headers`
    gets the headers, too (KIP-512)."""

    on_failed: FailureHookOption | None = option(FailureHook(), None, Group.HOOKS)
    """Takes each record whose delivery failed for good, once, as a `FailedRecord`: a function,
    plain or async, a `DeadLetterTopic` or a `DeadLetterFile`."""

    security_protocol: SecurityProtocol = option(
        Choice(SecurityProtocol), "PLAINTEXT", Group.SECURITY, MEDIUM
    )
    """The protocol of the listener: with TLS or without, with a login (SASL) or without."""

    transactional_id: str | None = option(Nullable(Text(empty=False)), None, Group.TRANSACTIONS)
    """The name under which transactions survive a restart. With it, everything that is sent is part
    of a transaction, and whoever starts with the same name fences the one before."""

    transaction_timeout_ms: int = option(Milliseconds(1, INT_MAX), 60000, Group.TRANSACTIONS)
    """The time after which the coordinator aborts a transaction; before Kafka 4 it fences
    the producer as well. At most the brokers' `transaction.max.timeout.ms`."""

    metrics_num_samples: int = option(Integer(1, INT_MAX), 2, Group.METRICS)
    """The number of samples that rates and averages are computed over."""

    metrics_sample_window_ms: int = option(Milliseconds(0, LONG_MAX), 30000, Group.METRICS)
    """The time that one sample covers."""

    enable_metrics_push: bool = option(Boolean(), True, Group.METRICS)
    """Push metrics to the brokers if their operators have subscribed to them (KIP-714). No
    connection is opened for this."""


OPTIONS: Final = options_of(OptionTable)
"""The rows by Python name."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class GivenOptions(OptionTable):
    """The options, and the names of those that were set."""

    given: frozenset[str] = field(init=False, compare=False)
    """The names of the options that were set explicitly, be it to their default."""
