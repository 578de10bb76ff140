"""The option table: every option of the producer with its default value, each defined once. The
options of security are in ``security_options.py``.

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

AcksOption = Literal["all", "1", "0"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DnsLookup = Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
RecoveryStrategy = Literal["rebootstrap", "same_cluster", "none"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class OptionTable(TokenOptions):
    """The options, with the types that they have in :class:`ProducerConfig`. The options of TLS,
    logins and tokens are in separate files."""

    bootstrap_servers: tuple[Address, ...] = required_option(Addresses(), Group.ESSENTIALS, HIGH)
    """The brokers to contact first. They report the rest of the cluster, so two or three are
    enough. Write IPv6 addresses in brackets: `[::1]:9092`."""

    client_id: str | None = option(
        Nullable(Text(most=_LONGEST_STRING)), None, Group.ESSENTIALS, MEDIUM
    )
    """The client's name in the brokers' logs, quotas and metrics. None generates `producer-N`."""

    acks: AcksOption = option(Acks(AcksOption), "all", Group.ESSENTIALS)
    """The replicas that must have a record before it counts as delivered: `all` in-sync replicas,
    `1` for only the leader, `0` for none (offsets are then unknown, losses go unnoticed, such as
    of what waits in the socket's buffer when a connection breaks, and records on a new connection
    can overtake those on the one before)."""

    compression_type: CompressionType = option(
        Choice(CompressionType), "none", Group.ESSENTIALS, HIGH
    )
    """The codec that compresses whole batches; larger batches compress better."""

    linger_ms: int | None = option(
        Nullable(Milliseconds(0, LONG_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="5"
    )
    """How long a batch that is not full waits for more records. None adapts: almost no wait while
    nothing is in flight to the broker (up to 1 ms while every iteration of a busy event loop brings
    records), otherwise up to 5 ms. A number means exactly what it means in Kafka. Kafka always
    waits 5 ms, which would delay every send of an application that awaits each one."""

    batch_size: int | None = option(
        Nullable(Bytes(0, INT_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="16384"
    )
    """The size of a batch before compression. None adapts: 16 KB at first, and up to 1 MB while
    batches fill up before they can be sent. A number means exactly what it means in Kafka: a larger
    record gets its own batch, and 0 puts one record in each batch."""

    buffer_memory: int = option(Bytes(1, LONG_MAX), 33554432, Group.BATCHING, HIGH)
    """The maximum memory for records that are not delivered yet. A quarter is reserved for records
    that wait for a batch, so `batch_size`, if set, must fit into the other three quarters."""

    max_block_ms: int = option(Milliseconds(0, LONG_MAX), 60000, Group.BATCHING, MEDIUM)
    """How long a record waits for its topic's metadata and for memory before it fails. `send()`
    itself never blocks."""

    max_request_size: int = option(Bytes(1, INT_MAX), 1048576, Group.BATCHING, MEDIUM)
    """The maximum size of a produce request, and of a record before compression. Brokers have their
    own limit, `message.max.bytes`."""

    compression_gzip_level: int = option(Integer(1, 9, also=-1), -1, Group.BATCHING, MEDIUM)
    """Low levels are faster, high levels compress better; -1 is zlib's default."""

    compression_lz4_level: int = option(Integer(1, 17), 9, Group.BATCHING, MEDIUM)
    """Low levels are faster, high levels compress better."""

    compression_zstd_level: int = option(Integer(-131072, 22), 3, Group.BATCHING, MEDIUM)
    """Low levels are faster, high levels compress better."""

    enable_idempotence: bool = option(Boolean(), True, Group.DELIVERY)
    """Writes every record exactly once and in order, across retries. Requires `acks="all"`,
    `retries` above 0 and at most 5 requests in flight. If you do not set it, a conflicting `acks`
    or `retries` switches it off."""

    max_in_flight_requests_per_connection: int = option(Integer(1, INT_MAX), 5, Group.DELIVERY)
    """The number of requests to a broker that can be unanswered at the same time. Without
    idempotence, more than 1 can reorder records on a retry."""

    delivery_timeout_ms: int = option(Milliseconds(0, INT_MAX), 120000, Group.DELIVERY, MEDIUM)
    """The time limit from `send()` to a record's delivery or failure, including retries. Must be at
    least `linger_ms` plus `request_timeout_ms`; if you do not set it, it grows to their sum."""

    request_timeout_ms: int = option(Milliseconds(0, INT_MAX), 30000, Group.DELIVERY, MEDIUM)
    """How long to wait for a broker's response before the connection is closed and the request is
    retried; up to four times as long while bytes of large requests or responses still pass (on
    Linux). Should be greater than the brokers' `replica.lag.time.max.ms`."""

    retries: int = option(Integer(0, INT_MAX), INT_MAX, Group.DELIVERY, HIGH)
    """The maximum number of retries of a batch after a retriable error. Prefer
    `delivery_timeout_ms` as the limit."""

    retry_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 100, Group.DELIVERY)
    """The wait before the first retry. Doubles with every further retry, with 20 % jitter."""

    retry_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 1000, Group.DELIVERY)
    """The maximum wait between retries."""

    metadata_max_age_ms: int = option(Milliseconds(0, LONG_MAX), 300000, Group.METADATA)
    """How often metadata is fetched again even without errors, to discover new brokers and
    partitions."""

    metadata_max_idle_ms: int = option(Milliseconds(5000, LONG_MAX), 300000, Group.METADATA)
    """How long metadata of a topic is kept after the last record was sent to it."""

    bootstrap_resolve_timeout_ms: int = option(Milliseconds(0, LONG_MAX), 0, Group.METADATA, HIGH)
    """How long `start()` waits until a name in `bootstrap_servers` can be resolved before it raises
    `BootstrapError`. With 0 it does not wait: names are looked up at every attempt to connect, and
    a record waits up to `max_block_ms` (KIP-909)."""

    metadata_recovery_strategy: RecoveryStrategy = option(
        Choice(RecoveryStrategy), "rebootstrap", Group.METADATA
    )
    """The reaction when no known broker can be reached. `rebootstrap` starts again from
    `bootstrap_servers` and follows the cluster that answers, so that a client survives the
    replacement of its cluster. `same_cluster` also starts again, but refuses every other cluster
    than the first one; Kafka does not have this value. `none` keeps trying the known brokers."""

    metadata_recovery_rebootstrap_trigger_ms: int = option(
        Milliseconds(0, LONG_MAX), 300000, Group.METADATA
    )
    """Also start again from `bootstrap_servers` when metadata could not be fetched for this long
    (KIP-1102). No effect if `metadata_recovery_strategy="none"`."""

    metadata_cluster_check_enable: bool = option(Boolean(), True, Group.METADATA)
    """Check that a known broker is still the broker that it was. A connection that reaches another
    broker (swapped ports, recycled addresses) is closed after the login and before any record is
    sent, and the client starts again from `bootstrap_servers` (KIP-1242). Brokers check connections
    since Kafka 4.4; once a connection was lost, an older broker is asked for its cluster on each
    new connection. No effect if `metadata_recovery_strategy="none"`."""

    reconnect_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 50, Group.NETWORK)
    """The wait before connecting to the same broker again. Doubles with every failure, with 20 %
    jitter. If `reconnect_backoff_max_ms` is not set, this is also the maximum."""

    reconnect_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 1000, Group.NETWORK)
    """The maximum wait between attempts to connect to a broker."""

    socket_connection_setup_timeout_ms: int = option(
        Milliseconds(1, LONG_MAX), 10000, Group.NETWORK, MEDIUM
    )
    """The time limit for establishing a connection. Doubles with every failure, with 20 %
    jitter."""

    socket_connection_setup_timeout_max_ms: int = option(
        Milliseconds(1, LONG_MAX), 30000, Group.NETWORK, MEDIUM
    )
    """The maximum time limit for establishing a connection."""

    connections_max_idle_ms: int = option(
        Milliseconds(0, LONG_MAX, also=-1), 540000, Group.NETWORK, MEDIUM
    )
    """How long an unused connection stays open; -1 keeps it open. The default is less than the
    brokers' 10 minutes. TCP keep-alive probes, one a minute, keep an open connection known to load
    balancers and firewalls."""

    client_dns_lookup: DnsLookup = option(
        Choice(DnsLookup), "use_all_dns_ips", Group.NETWORK, MEDIUM
    )
    """`use_all_dns_ips` tries all addresses of a name in parallel. The other value also replaces
    each bootstrap server with the canonical names of its addresses (for Kerberos)."""

    proxy_url: Secret | None = option(Nullable(ProxyUrl()), None, Group.NETWORK, MEDIUM)
    """The proxy of all connections to brokers (kafka-python's name): `socks5h://host:port` and
    `http://host:port` (CONNECT) have the proxy resolve the brokers' names, `socks5://host:port`
    resolves them here. A login stands before the host, `user:password@`. The port of SOCKS5 is 1080
    unless it is written. Environment variables such as `ALL_PROXY` are not read."""

    send_buffer_bytes: int = option(
        Bytes(0, INT_MAX, also=-1), -1, Group.NETWORK, MEDIUM, kafka_default="131072"
    )
    """The socket's send buffer (SO_SNDBUF). With -1 the system makes it larger as the connection
    needs it. A number bounds what is sent in a round trip, so that Kafka's default sends 1 MB/s to
    a broker that is 250 ms away."""

    receive_buffer_bytes: int = option(
        Bytes(0, INT_MAX, also=-1), -1, Group.NETWORK, MEDIUM, kafka_default="32768"
    )
    """The socket's receive buffer (SO_RCVBUF). With -1 the system makes it larger as the connection
    needs it. A number bounds what is received in a round trip."""

    key_serializer: SerializerOption | JavaSerializer | None = option(
        Serializer("key_serializer"), None, Group.HOOKS, HIGH, kafka_default="required"
    )
    """Converts keys to bytes. None: bytes-like keys are sent unchanged, str as UTF-8."""

    value_serializer: SerializerOption | JavaSerializer | None = option(
        Serializer("value_serializer"), None, Group.HOOKS, HIGH, kafka_default="required"
    )
    """Converts values to bytes. None: bytes-like values are sent unchanged, str as UTF-8."""

    partitioner: PartitionerOption | None = option(
        Partitioner(), None, Group.HOOKS, MEDIUM, java_name="partitioner.class"
    )
    """Chooses the partition of a record that does not name one. None: by the key's murmur2 hash,
    like every Java client; records without a key go to a sticky partition, which changes after the
    bytes of a full batch (KIP-794)."""

    partitioner_ignore_keys: bool = option(Boolean(), False, Group.HOOKS, MEDIUM)
    """Treat keyed records as if they had no key. No effect with a `partitioner` of your own."""

    partitioner_adaptive_partitioning_enable: bool = option(Boolean(), True, Group.HOOKS)
    """Send more of the records without a key to brokers that respond faster. No effect with a
    `partitioner` of your own."""

    partitioner_availability_timeout_ms: int = option(Milliseconds(0, LONG_MAX), 0, Group.HOOKS)
    """Records without a key avoid a partition whose broker has accepted nothing for this long; 0
    disables this. No effect with a `partitioner` of your own or without adaptive partitioning."""

    partitioner_rack_aware: bool = option(Boolean(), False, Group.HOOKS)
    """Send records without a key to partitions whose leader is in `client_rack`, if there are any
    (KIP-1123). No effect with a `partitioner` of your own."""

    client_rack: str = option(Text(), "", Group.HOOKS)
    """The rack of this client; the brokers' racks are set with `broker.rack`. A producer needs
    `partitioner_rack_aware` as well. A reader fetches from a replica in this rack if the brokers
    have a rack-aware `replica.selector.class` (KIP-392)."""

    interceptor_classes: tuple[InterceptorOption, ...] = option(Interceptors(), (), Group.HOOKS)
    """The interceptors, in the order in which they are called. They see every record before it is
    serialized, and every outcome, even that of a failed record, with topic and partition. If
    `on_acknowledgement` has a parameter `headers`, it also gets the headers (KIP-512)."""

    on_failed: FailureHookOption | None = option(FailureHook(), None, Group.HOOKS)
    """Gets every record whose delivery finally failed, once, as a `FailedRecord`: a function, plain
    or async, a `DeadLetterTopic` or a `DeadLetterFile`."""

    security_protocol: SecurityProtocol = option(
        Choice(SecurityProtocol), "PLAINTEXT", Group.SECURITY, MEDIUM
    )
    """The protocol of the brokers' listener: with or without TLS, with or without a login
    (SASL)."""

    transactional_id: str | None = option(Nullable(Text(empty=False)), None, Group.TRANSACTIONS)
    """The name that identifies this producer's transactions across restarts. If it is set, every
    record must be part of a transaction, and a producer that starts with the same name fences the
    earlier one."""

    transaction_timeout_ms: int = option(Milliseconds(1, INT_MAX), 60000, Group.TRANSACTIONS)
    """The time after which the coordinator aborts a transaction; before Kafka 4 it also fences the
    producer. The maximum is the brokers' `transaction.max.timeout.ms`."""

    metrics_num_samples: int = option(Integer(1, INT_MAX), 2, Group.METRICS)
    """The number of samples from which rates and averages are computed."""

    metrics_sample_window_ms: int = option(Milliseconds(0, LONG_MAX), 30000, Group.METRICS)
    """The time that one sample covers."""

    enable_metrics_push: bool = option(Boolean(), True, Group.METRICS)
    """Push metrics to the brokers if their operators subscribe to them (KIP-714). No extra
    connection is opened for this."""


OPTIONS: Final = options_of(OptionTable)
"""The rows by Python name."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class GivenOptions(OptionTable):
    """The options, and the names of those that were set."""

    given: frozenset[str] = field(init=False, compare=False)
    """The names of the options that were set explicitly, be it to their default."""
