"""The option table: every option of the producer with its default value, each defined once.

A row is a dataclass field that knows its kind, group and Java name (:func:`option`). Options of
security come last: TLS, logins (SASL), and OAuth tokens (KIP-768, KIP-1139). Names, defaults,
ranges and importance are those of ``org.apache.kafka.clients.producer.ProducerConfig``,
``org.apache.kafka.common.config.SslConfigs`` and ``SaslConfigs`` in Kafka 4.4;
``kafka_default`` marks where a default differs and the meaning says why. A few names are
librdkafka's: Java has these options only in the JAAS line. The string under a field is its
meaning: editors show it, and ``__main__.py`` prints it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from aioproducer.config.addresses import Address
from aioproducer.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Acks,
    Addresses,
    Boolean,
    Bytes,
    Choice,
    EndpointUrl,
    Extensions,
    FailureHook,
    FailureHookOption,
    Integer,
    InterceptorOption,
    Interceptors,
    JaasLine,
    JavaSerializer,
    Kind,
    Milliseconds,
    Names,
    Nullable,
    Number,
    Partitioner,
    PartitionerOption,
    Provider,
    ProviderOption,
    ProxyUrl,
    SecretText,
    Serializer,
    SerializerOption,
    SslContext,
    Text,
    UnacceptableError,
)
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret, type_name_of

if TYPE_CHECKING:
    from aioproducer.config.properties import Reference

__all__ = [
    "Group",
    "Importance",
    "Option",
    "option",
    "options_of",
    "required_option",
    "AssertionAlgorithm",
    "MetadataAuthenticationType",
    "SaslMechanism",
    "StoreType",
    "ADAPTIVE_LINGER_MS",
    "OPTIONS",
    "AcksOption",
    "CompressionType",
    "DnsLookup",
    "OptionTable",
    "RecoveryStrategy",
    "SecurityProtocol",
]


T = TypeVar("T")

_SHOWN_CHARACTERS: Final = 100


class Group(Enum):
    """The chapters of the documentation, in their order."""

    ESSENTIALS = "Essentials"
    BATCHING = "Batching and memory"
    DELIVERY = "Delivery"
    METADATA = "Metadata"
    NETWORK = "Network"
    HOOKS = "Serializers, partitioner, interceptors"
    SECURITY = "Security"
    TLS = "Security: TLS"
    SASL = "Security: logins (SASL)"
    TOKENS = "Security: OAuth tokens"
    TRANSACTIONS = "Transactions"
    METRICS = "Metrics"
    READING = "Reading: options only for a Reader"


class Importance(Enum):
    """The importance of an option in Kafka's documentation."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Option(NamedTuple):
    """A row of the table."""

    name: str
    java_name: str
    kind: Kind[Any]
    group: Group
    importance: Importance
    required: bool
    default: object
    kafka_default: str | None
    """Kafka's own default, where ours differs."""

    def accept(self, value: object) -> Any:
        """The normalised value.

        Raises:
            ConfigError: it is not acceptable; the message has the name, the value unless it is a
                secret, and the expected kind.
        """
        try:
            return self.kind.accept(value)
        except UnacceptableError as error:
            raise self._error(self.name, value, str(error)) from None

    def accept_property(self, value: object) -> Any:
        """The normalised value of a Java property; a ``str`` is converted to the option's type.

        Raises:
            ConfigError: as :meth:`accept`, with the Java name.
        """
        try:
            return self.kind.parse(value) if isinstance(value, str) else self.kind.accept(value)
        except UnacceptableError as error:
            raise self._error(self.java_name, value, str(error)) from None

    def accept_resolved(self, name: str, text: Secret, placeholder: str) -> Any:
        """The normalised value of the text behind ``placeholder``, which no message shows.

        Raises:
            ConfigError: as :meth:`accept`.
        """
        try:
            return self.kind.accept(text) if self.kind.secret else self.kind.parse(text.reveal())
        except UnacceptableError:
            pass  # its frames have the text, so the error below is not raised from it
        raise ConfigError(
            f"{name}={placeholder!r}: the value of the placeholder is not {self.kind.wording}"
        )

    def _error(self, name: str, value: object, expected: str) -> ConfigError:
        type_name = type_name_of(value)
        if self.kind.hides(value):
            return ConfigError(
                f"{name}: expected {expected}; the value of type {type_name} is hidden"
            )
        shown = repr(value)
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        return ConfigError(f"{name}={shown} (type {type_name}): expected {expected}")


_ROWS: Final[dict[Field[Any], Option]] = {}
"""The rows of all tables, by the fields of their dataclasses. :func:`options_of` adds the names."""


def option(
    kind: Kind[T],
    default: T,
    group: Group,
    importance: Importance = Importance.LOW,
    *,
    java_name: str = "",
    kafka_default: str | None = None,
) -> T:
    """A dataclass field; its meaning is the docstring that follows it."""
    row = Option("", java_name, kind, group, importance, False, default, kafka_default)
    return _noted(field(default=default), row)  # type: ignore[no-any-return]


def required_option(kind: Kind[T], group: Group, importance: Importance) -> T:
    """A dataclass field without default."""
    row = Option("", "", kind, group, importance, True, MISSING, None)
    return _noted(field(), row)  # type: ignore[no-any-return]


def _noted(made: Any, row: Option) -> Any:
    _ROWS[made] = row
    return made


def options_of(table: type) -> dict[str, Option]:
    """The rows of a dataclass made with :func:`option`, by their Python names, group by group."""
    rows: dict[str, Option] = {}
    for each in fields(table):
        row = _ROWS.get(each)
        if row is not None:
            name = each.name
            java_name = row.java_name or name.replace("_", ".")
            rows[name] = _ROWS[each] = row._replace(name=name, java_name=java_name)
    groups = list(Group)
    return dict(sorted(rows.items(), key=lambda item: groups.index(item[1].group)))


# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind


StoreType = Literal["JKS", "PKCS12", "PEM"]
SaslMechanism = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"
]
AssertionAlgorithm = Literal["RS256", "ES256"]
MetadataAuthenticationType = Literal["none", "azure", "azure_imds", "aws_iam", "gcp"]

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_FLAG: Final = Boolean()
_NAME: Final = Nullable(Text(empty=False))
_SECRET: Final = Nullable(SecretText())
_TIME: Final = Milliseconds(0, LONG_MAX)

_LONGEST_STRING: Final = 32_767
"""The longest string in Kafka's protocol, in bytes."""

ADAPTIVE_LINGER_MS: Final = 5
"""The longest that a batch waits while ``linger_ms`` is None, in milliseconds."""

AcksOption = Literal["all", "1", "0"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
DnsLookup = Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
RecoveryStrategy = Literal["rebootstrap", "same_cluster", "none"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@dataclass(frozen=True, init=False, repr=False, eq=False)
class OptionTable:
    """The options, with the types that they have in :class:`ProducerConfig`."""

    bootstrap_servers: tuple[Address, ...] = required_option(Addresses(), Group.ESSENTIALS, HIGH)
    """The brokers to contact first. They report the rest of the cluster, so two or three are
    enough. Write IPv6 addresses in brackets: `[::1]:9092`."""

    client_id: str | None = option(
        Nullable(Text(most=_LONGEST_STRING)), None, Group.ESSENTIALS, MEDIUM
    )
    """The client's name in the brokers' logs, quotas and metrics. None generates `producer-N`,
    `consumer-N`, `reader-N` or `adminclient-N`."""

    acks: AcksOption = option(Acks(AcksOption), "all", Group.ESSENTIALS)
    """The replicas that must have a record before it counts as delivered: `all` in-sync replicas,
    `1` for only the leader, `0` for none. With `0`, offsets are unknown, records can be lost
    unnoticed, for example in the socket's buffer when a connection breaks, and records on a new
    connection can overtake earlier ones."""

    compression_type: CompressionType = option(
        Choice(CompressionType), "none", Group.ESSENTIALS, HIGH
    )
    """The codec that compresses whole batches; larger batches compress better."""

    linger_ms: int | None = option(
        Nullable(Milliseconds(0, LONG_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="5"
    )
    """How long a batch that is not full waits for more records. None adapts: almost no wait while
    no records are in flight to the broker (up to 1 ms while every iteration of a busy event loop
    brings records), otherwise up to 5 ms. A number means exactly what it means in Kafka. Kafka
    always waits 5 ms, which would delay every send of an application that awaits each one."""

    batch_size: int | None = option(
        Nullable(Bytes(0, INT_MAX)), None, Group.BATCHING, MEDIUM, kafka_default="16384"
    )
    """The size of a batch before compression. None adapts: 16 KB at first, and up to 1 MB while
    batches fill up before they can be sent. A number means exactly what it means in Kafka: a larger
    record gets its own batch, and 0 puts one record in each batch."""

    buffer_memory: int = option(Bytes(1, LONG_MAX), 33554432, Group.BATCHING, HIGH)
    """The maximum memory for records that are not delivered yet. A quarter is reserved for records
    that wait for a batch, so `batch_size`, if set, must fit into the other three quarters."""

    max_block_ms: int = option(_TIME, 60000, Group.BATCHING, MEDIUM)
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

    enable_idempotence: bool = option(_FLAG, True, Group.DELIVERY)
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

    retry_backoff_ms: int = option(_TIME, 100, Group.DELIVERY)
    """The wait before the first retry. Doubles with every further retry, with 20% jitter."""

    retry_backoff_max_ms: int = option(_TIME, 1000, Group.DELIVERY)
    """The maximum wait between retries."""

    metadata_max_age_ms: int = option(_TIME, 300000, Group.METADATA)
    """How often metadata is fetched again even without errors, to discover new brokers and
    partitions."""

    metadata_max_idle_ms: int = option(Milliseconds(5000, LONG_MAX), 300000, Group.METADATA)
    """How long metadata of a topic is kept after the last record was sent to it."""

    bootstrap_resolve_timeout_ms: int = option(_TIME, 0, Group.METADATA, HIGH)
    """How long `start()` waits until a name in `bootstrap_servers` can be resolved before it raises
    `BootstrapError`. With 0 it does not wait: names are looked up at every attempt to connect, and
    a record waits up to `max_block_ms` (KIP-909)."""

    metadata_recovery_strategy: RecoveryStrategy = option(
        Choice(RecoveryStrategy), "rebootstrap", Group.METADATA
    )
    """The reaction when no known broker can be reached. `rebootstrap` starts again from
    `bootstrap_servers` and follows the cluster that answers, so that a client survives the
    replacement of its cluster. `same_cluster` also starts again, but refuses every cluster
    except the first one; Kafka does not have this value. `none` keeps trying the known brokers."""

    metadata_recovery_rebootstrap_trigger_ms: int = option(_TIME, 300000, Group.METADATA)
    """Also start again from `bootstrap_servers` when metadata could not be fetched for this long
    (KIP-1102). No effect if `metadata_recovery_strategy="none"`."""

    metadata_cluster_check_enable: bool = option(_FLAG, True, Group.METADATA)
    """Check that a known broker is still the broker that it was. A connection that reaches another
    broker (swapped ports, recycled addresses) is closed after the login and before any record is
    sent, and the client starts again from `bootstrap_servers` (KIP-1242). Brokers check connections
    from Kafka 4.4 on; after a connection was lost, an older broker is asked for its cluster on each
    new connection. No effect if `metadata_recovery_strategy="none"`."""

    reconnect_backoff_ms: int = option(_TIME, 50, Group.NETWORK)
    """The wait before connecting to the same broker again. Doubles with every failure, with 20%
    jitter. If `reconnect_backoff_max_ms` is not set, this is also the maximum."""

    reconnect_backoff_max_ms: int = option(_TIME, 1000, Group.NETWORK)
    """The maximum wait between attempts to connect to a broker."""

    socket_connection_setup_timeout_ms: int = option(
        Milliseconds(1, LONG_MAX), 10000, Group.NETWORK, MEDIUM
    )
    """The time limit for establishing a connection. Doubles with every failure, with 20%
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
    resolves them on this machine. Put a login before the host, `user:password@`. The default port
    of SOCKS5 is 1080. Environment variables such as `ALL_PROXY` are not read."""

    send_buffer_bytes: int = option(
        Bytes(0, INT_MAX, also=-1), -1, Group.NETWORK, MEDIUM, kafka_default="131072"
    )
    """The socket's send buffer (SO_SNDBUF). With -1 the system grows it as needed. A number limits
    what is sent per round trip: Kafka's default allows 1 MB/s to a broker that is 250 ms away."""

    receive_buffer_bytes: int = option(
        Bytes(0, INT_MAX, also=-1), -1, Group.NETWORK, MEDIUM, kafka_default="32768"
    )
    """The socket's receive buffer (SO_RCVBUF). With -1 the system grows it as needed. A number
    limits what is received per round trip."""

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

    partitioner_ignore_keys: bool = option(_FLAG, False, Group.HOOKS, MEDIUM)
    """Treat keyed records as if they had no key. No effect with a `partitioner` of your own."""

    partitioner_adaptive_partitioning_enable: bool = option(_FLAG, True, Group.HOOKS)
    """Send more of the records without a key to brokers that respond faster. No effect with a
    `partitioner` of your own."""

    partitioner_availability_timeout_ms: int = option(_TIME, 0, Group.HOOKS)
    """Records without a key avoid a partition whose broker has accepted nothing for this long; 0
    disables this. No effect with a `partitioner` of your own or without adaptive partitioning."""

    partitioner_rack_aware: bool = option(_FLAG, False, Group.HOOKS)
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

    transactional_id: str | None = option(_NAME, None, Group.TRANSACTIONS)
    """The name that identifies this producer's transactions across restarts. If it is set, every
    record must be part of a transaction, and a producer that starts with the same name fences the
    earlier one."""

    transaction_timeout_ms: int = option(Milliseconds(1, INT_MAX), 60000, Group.TRANSACTIONS)
    """The time after which the coordinator aborts a transaction; before Kafka 4 it also fences the
    producer. The maximum is the brokers' `transaction.max.timeout.ms`."""

    metrics_num_samples: int = option(Integer(1, INT_MAX), 2, Group.METRICS)
    """The number of samples from which rates and averages are computed."""

    metrics_sample_window_ms: int = option(_TIME, 30000, Group.METRICS)
    """The time that one sample covers."""

    enable_metrics_push: bool = option(_FLAG, True, Group.METRICS)
    """Push metrics to the brokers if their operators subscribe to them (KIP-714). No extra
    connection is opened for this."""

    # --- TLS: with other protocols these are an error, but for the truststore that the certificate
    # of a token endpoint is checked against

    ssl_context: Any = option(Nullable(SslContext()), None, Group.TLS, HIGH)
    """Your own `ssl.SSLContext`, used unchanged. It excludes all other TLS options and can't be
    pickled."""

    ssl_truststore_location: str | None = option(_NAME, None, Group.TLS, HIGH)
    """The file with the certificate authorities (CAs) that you trust. None uses the system's
    CAs."""

    ssl_truststore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_truststore_location`. With Kafka's default, `JKS`, the format (PEM or
    PKCS#12) is detected from the content. Java keystores can't be read."""

    ssl_truststore_password: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The password of a `PKCS12` truststore; PEM has none."""

    ssl_truststore_certificates: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The CAs as PEM text instead of a file; requires `ssl_truststore_type="PEM"` (KIP-651)."""

    ssl_keystore_location: str | None = option(_NAME, None, Group.TLS, HIGH)
    """The file with the client's private key and certificate, for brokers that require one. A PEM
    file contains both."""

    ssl_keystore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_keystore_location`. With Kafka's default, `JKS`, the format (PEM or
    PKCS#12) is detected from the content. Java keystores can't be read."""

    ssl_keystore_password: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The password of a `PKCS12` keystore. For PEM use `ssl_key_password`."""

    ssl_keystore_key: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The client's private key as PEM text (PKCS#8) instead of a file; requires
    `ssl_keystore_type="PEM"` and `ssl_keystore_certificate_chain`."""

    ssl_keystore_certificate_chain: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The client's certificate with its intermediate certificates, as PEM text; goes with
    `ssl_keystore_key`."""

    ssl_key_password: Secret | None = option(_SECRET, None, Group.TLS, HIGH)
    """The password of the private key."""

    ssl_endpoint_identification_algorithm: str = option(
        Choice(Literal["https", ""]), "https", Group.TLS
    )
    """`https` checks that a broker's certificate matches the host name of the connection. An empty
    string disables the check: then anyone with a certificate from a trusted CA can impersonate a
    broker."""

    ssl_protocol: str = option(
        Choice(Literal["TLSv1.3", "TLSv1.2", "TLS"]), "TLSv1.3", Group.TLS, MEDIUM
    )
    """The highest version of TLS to use; `TLS` is the highest available."""

    ssl_enabled_protocols: tuple[str, ...] = option(
        Names(), ("TLSv1.2", "TLSv1.3"), Group.TLS, MEDIUM
    )
    """The versions of TLS that can be negotiated: `TLSv1.2` and `TLSv1.3`, or one of them."""

    ssl_cipher_suites: tuple[str, ...] = option(Names(), (), Group.TLS)
    """The cipher suites that can be negotiated, by their OpenSSL or standard names. Empty uses
    OpenSSL's defaults."""

    ssl_crl_location: str | None = option(_NAME, None, Group.TLS)
    """A PEM file with revocation lists for the brokers' certificates (librdkafka's name). None
    checks no list."""

    # --- logins

    sasl_mechanism: SaslMechanism | None = option(
        Nullable(Choice(SaslMechanism)), None, Group.SASL, MEDIUM, kafka_default="GSSAPI"
    )
    """The login mechanism. SASL protocols require this option, because Kafka's default is rarely
    what you want; None is `GSSAPI` if a Kerberos login is configured."""

    sasl_username: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The user name for `PLAIN` and `SCRAM-…` (librdkafka's name; in Java part of
    `sasl_jaas_config`)."""

    sasl_password: Secret | None = option(_SECRET, None, Group.SASL, MEDIUM)
    """The password for `PLAIN` and `SCRAM-…`; goes with `sasl_username`."""

    sasl_credentials_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.SASL, MEDIUM
    )
    """Provides user name and password for `PLAIN` and `SCRAM-…` at every login, instead of
    `sasl_username` and `sasl_password`: a callable without arguments, async or not, that returns
    the pair. Use an import path, `package.module:function`, if the configuration is pickled."""

    sasl_jaas_config: Secret | None = option(Nullable(JaasLine()), None, Group.SASL, MEDIUM)
    """The JAAS line from which Java clients take their credentials. Supported are the login modules
    of `PLAIN`, `SCRAM`, `OAUTHBEARER`, Kerberos and MSK's IAM."""

    sasl_kerberos_service_name: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The service name in the brokers' principals, usually `kafka`. `GSSAPI` requires it, here or
    as `serviceName` in the JAAS line."""

    sasl_kerberos_principal: str | None = option(_NAME, None, Group.SASL)
    """The client's own principal for `GSSAPI` (librdkafka's name). None uses the one in the ticket
    cache or keytab."""

    sasl_kerberos_keytab: str | None = option(_NAME, None, Group.SASL)
    """The keytab file for `GSSAPI` (librdkafka's name). None uses the ticket cache that `kinit`
    fills."""

    sasl_aws_profile_name: str | None = option(_NAME, None, Group.SASL)
    """The AWS configuration profile for `AWS_MSK_IAM`; `awsProfileName` in the JAAS line. None uses
    the default credential chain of AWS."""

    sasl_aws_role_arn: str | None = option(_NAME, None, Group.SASL)
    """The role to assume for `AWS_MSK_IAM`; `awsRoleArn` in the JAAS line."""

    sasl_aws_role_session_name: str | None = option(_NAME, None, Group.SASL)
    """The session name for the role; `awsRoleSessionName` in the JAAS line."""

    sasl_aws_role_external_id: str | None = option(_NAME, None, Group.SASL)
    """The external id that the role's owner requires; `awsRoleExternalId` in the JAAS line."""

    sasl_aws_sts_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the STS service that issues the role's credentials; `awsStsRegion` in the JAAS
    line."""

    sasl_aws_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the cluster. None takes it from the brokers' host names; set it if you use your
    own domain for the brokers."""

    sasl_login_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's own classes are accepted and need nothing else. Any other class is
    refused with its name."""

    sasl_login_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's `OAuthBearerLoginCallbackHandler` is accepted. Any other class is
    refused with its name, unless `sasl_oauthbearer_token_provider` replaces it."""

    sasl_client_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. `software.amazon.msk.auth.iam.IAMClientCallbackHandler` and Kafka's own classes
    are accepted. Any other class is refused with its name."""

    # --- OAuth tokens: their sources, and when to renew them

    sasl_oauthbearer_token_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.TOKENS, MEDIUM
    )
    """Provides tokens: a callable without arguments, async or not. Use an import path,
    `package.module:function`, if the configuration is pickled (for Spark's executors, for
    example)."""

    sasl_oauthbearer_token_endpoint_url: str | None = option(
        Nullable(EndpointUrl()), None, Group.TOKENS, MEDIUM
    )
    """The identity provider's token endpoint (`https://…`), or a file that holds a token
    (`file:///…`). An `http://` address is refused unless it is this machine's own."""

    sasl_oauthbearer_metadata_authentication_type: MetadataAuthenticationType = option(
        Choice(MetadataAuthenticationType), "none", Group.TOKENS, MEDIUM
    )
    """Gets tokens without a secret, with the identity of this machine or pod (librdkafka's name).
    `azure` asks workload identity, App Service or the instance metadata service (IMDS),
    `azure_imds` only IMDS, `aws_iam` AWS STS, `gcp` Google's metadata server. For Amazon MSK use
    `sasl_mechanism="AWS_MSK_IAM"`."""

    sasl_oauthbearer_config: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The parameters of `sasl_oauthbearer_metadata_authentication_type`, as `key=value,key=value`
    (librdkafka's name). For `azure`: `resource`, `client_id`. For `azure_imds`: `query`. For
    `aws_iam`: `region`, `audience`, `duration_seconds`, `signing_algorithm`, `sts_endpoint`,
    `tag_NAME`."""

    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The client id for the token endpoint; `clientId` in the JAAS line."""

    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        _SECRET, None, Group.TOKENS, MEDIUM
    )
    """The client secret for the token endpoint; `clientSecret` in the JAAS line."""

    sasl_oauthbearer_scope: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The scope to request for the token; `scope` in the JAAS line."""

    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...] = option(
        Extensions(), (), Group.TOKENS
    )
    """Names and values to send to the broker with the token, such as Confluent Cloud's
    `logicalCluster` and `identityPoolId` (librdkafka's name); `extension_…` in the JAAS line."""

    sasl_oauthbearer_header_urlencode: bool = option(_FLAG, False, Group.TOKENS)
    """URL-encode client id and secret in the request header, as RFC 6749 specifies."""

    sasl_oauthbearer_jwt_retriever_class: str = option(
        Text(empty=False),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        Group.TOKENS,
        MEDIUM,
    )
    """How to get a token, as one of Kafka's class names: `ClientCredentialsJwtRetriever`,
    `JwtBearerJwtRetriever`, `FileJwtRetriever`; the default reads the file of a `file:` URL, and
    uses client credentials otherwise."""

    sasl_oauthbearer_assertion_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A file with an assertion that another program signs and renews. All other assertion options
    are then ignored."""

    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The PEM file with the private key that signs assertions."""

    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        _SECRET, None, Group.TOKENS, MEDIUM
    )
    """The password of that private key."""

    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm = option(
        Choice(AssertionAlgorithm), "RS256", Group.TOKENS, MEDIUM
    )
    """The algorithm that signs assertions."""

    sasl_oauthbearer_assertion_template_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A JSON file with headers and claims for every assertion."""

    sasl_oauthbearer_assertion_claim_aud: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `aud` (audience) of assertions."""

    sasl_oauthbearer_assertion_claim_iss: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `iss` (issuer) of assertions."""

    sasl_oauthbearer_assertion_claim_sub: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `sub` (subject) of assertions."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(Integer(0, 86400), 300, Group.TOKENS)
    """How long an assertion is valid."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(Integer(0, 3600), 60, Group.TOKENS)
    """How long before its creation an assertion is already valid, to allow for clock
    differences."""

    sasl_oauthbearer_assertion_claim_jti_include: bool = option(_FLAG, False, Group.TOKENS, MEDIUM)
    """Give every assertion a unique id (claim `jti`)."""

    sasl_login_connect_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """The time limit for connecting to the token endpoint."""

    sasl_login_read_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """The time limit for the response of the token endpoint or of `sasl_credentials_provider`; None
    is 10 seconds."""

    sasl_login_retry_backoff_ms: int = option(_TIME, 100, Group.TOKENS)
    """The wait before the token endpoint is asked again. Doubles with every failure."""

    sasl_login_retry_backoff_max_ms: int = option(_TIME, 10000, Group.TOKENS)
    """The maximum wait before the token endpoint is asked again."""

    sasl_login_refresh_window_factor: float = option(Number(0.5, 1.0), 0.8, Group.TOKENS)
    """The fraction of a token's lifetime after which it is renewed."""

    sasl_login_refresh_window_jitter: float = option(Number(0.0, 0.25), 0.05, Group.TOKENS)
    """The maximum fraction of a token's lifetime that is added at random, so that clients don't all
    renew at once."""

    sasl_login_refresh_min_period_seconds: int = option(Integer(0, 900), 60, Group.TOKENS)
    """The minimum time between two renewals, unless the token expires earlier."""

    sasl_login_refresh_buffer_seconds: int = option(Integer(0, 3600), 300, Group.TOKENS)
    """The minimum time between a token's renewal and its expiry, if its lifetime allows."""

    # --- what the caller gave

    given: frozenset[str] = field(init=False)
    """The names of the options that were set explicitly, be it to their default."""

    references: "Mapping[str, Reference]" = field(init=False)
    """The options whose values came from placeholders, with the original texts."""


OPTIONS: Final = options_of(OptionTable)
"""The rows by Python name."""
