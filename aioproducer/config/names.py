"""The names of options: as typed keywords, as Java properties, and unknown names.

Type checkers and editors know the keywords of a function that takes
``**options: Unpack[ProducerOptions]``. The names are those of ``OptionTable``; a test compares
them. The types are wider than those of ``OptionTable``: a ``str`` for a :class:`Secret`, a number
for ``acks``. They are no strings: a TypedDict would compile each of them at the import.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict

from aioproducer.config.addresses import Address
from aioproducer.config.kinds import (
    Choice,
    FailureHookOption,
    InterceptorOption,
    PartitionerOption,
    ProviderOption,
    SerializerOption,
)
from aioproducer.config.options import (
    OPTIONS,
    AssertionAlgorithm,
    CompressionType,
    DnsLookup,
    Group,
    Importance,
    MetadataAuthenticationType,
    Option,
    RecoveryStrategy,
    SaslMechanism,
    SecurityProtocol,
    StoreType,
)
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret

__all__ = [
    "BY_JAVA_NAME",
    "CHECKED_WITHOUT_EFFECT",
    "WITHOUT_EFFECT",
    "AcksArgument",
    "ProducerOptions",
    "UntypedOptions",
    "belongs_to_consumers",
    "unknown_keyword",
    "unknown_property",
]

AcksArgument: TypeAlias = Literal["all", "-1", "0", "1", -1, 0, 1]


class TlsKeywords(TypedDict, total=False):
    """The options of TLS as keywords."""

    ssl_context: Any
    ssl_truststore_location: str | None
    ssl_truststore_type: StoreType
    ssl_truststore_password: str | Secret | None
    ssl_truststore_certificates: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_type: StoreType
    ssl_keystore_password: str | Secret | None
    ssl_keystore_key: str | Secret | None
    ssl_keystore_certificate_chain: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_endpoint_identification_algorithm: Literal["https", ""]
    ssl_protocol: Literal["TLSv1.3", "TLSv1.2", "TLS"]
    ssl_enabled_protocols: str | Iterable[str]
    ssl_cipher_suites: str | Iterable[str]
    ssl_crl_location: str | None


class LoginKeywords(TlsKeywords, total=False):
    """The options of logins and tokens as keywords."""

    sasl_mechanism: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_credentials_provider: ProviderOption | None
    sasl_jaas_config: str | Secret | None
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_aws_profile_name: str | None
    sasl_aws_role_arn: str | None
    sasl_aws_role_session_name: str | None
    sasl_aws_role_external_id: str | None
    sasl_aws_sts_region: str | None
    sasl_aws_region: str | None
    sasl_login_class: str | None
    sasl_login_callback_handler_class: str | None
    sasl_client_callback_handler_class: str | None
    sasl_oauthbearer_token_provider: ProviderOption | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_metadata_authentication_type: MetadataAuthenticationType
    sasl_oauthbearer_config: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: str | Mapping[str, str]
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class UntypedOptions(LoginKeywords, total=False):
    """The options that do not determine the types of keys and values, as keywords."""

    bootstrap_servers: str | Iterable[str | Address]
    client_id: str | None
    acks: AcksArgument
    compression_type: CompressionType
    linger_ms: int | None
    batch_size: int | None
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
    bootstrap_resolve_timeout_ms: int
    metadata_recovery_strategy: RecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    client_dns_lookup: DnsLookup
    proxy_url: str | Secret | None
    send_buffer_bytes: int
    receive_buffer_bytes: int
    partitioner: PartitionerOption | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    client_rack: str
    interceptor_classes: Iterable[InterceptorOption]
    on_failed: FailureHookOption | None
    security_protocol: SecurityProtocol
    transactional_id: str | None
    transaction_timeout_ms: int
    metrics_num_samples: int
    metrics_sample_window_ms: int
    enable_metrics_push: bool


class ProducerOptions(UntypedOptions, total=False):
    """Every option as a keyword. Only ``bootstrap_servers`` is required."""

    key_serializer: SerializerOption | None
    value_serializer: SerializerOption | None


BY_JAVA_NAME: Final = {option.java_name: option for option in OPTIONS.values()}

_KINIT: Final = "the producer does not call kinit; use a keytab, or a ticket cache that is renewed"
_VALIDATOR: Final = "brokers validate tokens, this client does not"
_REGISTRY: Final = "aioproducer.schema_registry reads it, for serializers that you pass as keywords"

WITHOUT_EFFECT: Final = {
    "auto.include.jmx.reporter": "there is no JMX; read Producer.metrics()",
    "basic.auth.credentials.source": _REGISTRY,
    "basic.auth.user.info": _REGISTRY,
    "buffer.memory.allocation.strategy": (
        "batches begin with 16 KB and grow with the load, so memory follows it as with "
        "incremental; with a number for batch_size every batch reserves all of it, as with full"
    ),
    "metric.reporters": "Java classes cannot be loaded; read Producer.metrics()",
    "metrics.recording.level": "every metric is always recorded",
    "sasl.kerberos.kinit.cmd": _KINIT,
    "sasl.kerberos.min.time.before.relogin": _KINIT,
    "sasl.kerberos.ticket.renew.jitter": _KINIT,
    "sasl.kerberos.ticket.renew.window.factor": _KINIT,
    "sasl.oauthbearer.allow.unverified.audience": _VALIDATOR,
    "sasl.oauthbearer.allow.unverified.issuer": _VALIDATOR,
    "sasl.oauthbearer.clock.skew.seconds": _VALIDATOR,
    "sasl.oauthbearer.expected.audience": _VALIDATOR,
    "sasl.oauthbearer.expected.issuer": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _VALIDATOR,
    "sasl.oauthbearer.jwks.endpoint.url": _VALIDATOR,
    "sasl.oauthbearer.jwt.validator.class": _VALIDATOR,
    "sasl.oauthbearer.scope.claim.name": _VALIDATOR,
    "sasl.oauthbearer.sub.claim.name": _VALIDATOR,
    "schema.registry.url": _REGISTRY,
    "security.providers": "the Java runtime's security providers do not exist here",
    "session.timeout.ms": "an option of Kafka's consumer, which templates for all clients contain",
    "ssl.engine.factory.class": "Java classes cannot be loaded",
    "ssl.keymanager.algorithm": "belongs to the Java runtime's TLS",
    "ssl.provider": "belongs to the Java runtime's TLS",
    "ssl.secure.random.implementation": "belongs to the Java runtime's TLS",
    "ssl.trustmanager.algorithm": "belongs to the Java runtime's TLS",
}
"""Java names that a properties file may hold and that change nothing here, each with its reason."""

CHECKED_WITHOUT_EFFECT: Final = {
    option.java_name: option
    for option in (
        Option(
            name="buffer_memory_allocation_strategy",
            java_name="buffer.memory.allocation.strategy",
            kind=Choice(Literal["full", "incremental"]),
            group=Group.BATCHING,
            importance=Importance.MEDIUM,
            required=False,
            default="full",
            kafka_default=None,
        ),
    )
}
"""The names in ``WITHOUT_EFFECT`` whose value is checked: each requests a different behaviour."""

_TRUSTSTORE: Final = "the file of ssl_truststore_location with ssl_truststore_type='PEM'"
_KEYSTORE: Final = (
    "one file with key and certificate, ssl_keystore_location with ssl_keystore_type='PEM'"
)
_OTHER_CLIENTS: Final = {
    "bootstrap.controllers": "bootstrap_servers: requests go to brokers",
    "enable.ssl.certificate.verification": "an ssl_context of your own",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.oauth.token.provider": "sasl_oauthbearer_token_provider",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "sasl.plain.password": "sasl_password",
    "sasl.plain.username": "sasl_username",
    "socks5.proxy": "proxy_url",
    "ssl.ca.location": _TRUSTSTORE,
    "ssl.ca.pem": "ssl_truststore_certificates with ssl_truststore_type='PEM'",
    "ssl.cafile": _TRUSTSTORE,
    "ssl.certfile": _KEYSTORE,
    "ssl.certificate.location": _KEYSTORE,
    "ssl.certificate.pem": "ssl_keystore_certificate_chain with ssl_keystore_type='PEM'",
    "ssl.check.hostname": "ssl_endpoint_identification_algorithm",
    "ssl.ciphers": "ssl_cipher_suites",
    "ssl.crlfile": "ssl_crl_location",
    "ssl.key.location": _KEYSTORE,
    "ssl.key.pem": "ssl_keystore_key with ssl_keystore_type='PEM'",
    "ssl.keyfile": _KEYSTORE,
}
"""Names that librdkafka, aiokafka and kafka-python have, with their counterparts here."""

_NEEDLESS: Final = {
    "api.version": "versions are negotiated with each broker",
    "api.version.auto.timeout.ms": "versions are negotiated with each broker",
    "api.version.request": "versions are negotiated with each broker",
    "broker.version.fallback": "versions are negotiated with each broker",
    "loop": "start() takes the running event loop",
}
"""Names of other clients that nothing here needs, each with its reason."""

_NOT_YET: Final = {
    "transaction.two.phase.": "two-phase commit is not available in this version",
}
"""Beginnings of the Java names of features to come."""

_CONSUMER_OPTIONS: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "default.api.timeout.ms",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "value.deserializer",
    }
)


def unknown_keyword(name: str, librdkafka: Container[str] = ()) -> ConfigError:
    """The error for a keyword that no option has; ``librdkafka``: its names, to tell them."""
    java_name = name.replace("_", ".")
    known = BY_JAVA_NAME.get(java_name)
    nearest = known.name if known else _nearest(name, OPTIONS)
    return _unknown(name, java_name, nearest, librdkafka=librdkafka)


def unknown_property(name: str, further: Mapping[str, Option] | None = None) -> ConfigError:
    """The error for a Java property that no option has and that is not in ``WITHOUT_EFFECT``.

    ``further``: the options that a client has besides a producer's, by their Java names.
    """
    java_name = name.replace("_", ".")
    known = {**BY_JAVA_NAME, **(further or {})}
    nearest = java_name if java_name in known else _nearest(name, known)
    return _unknown(name, java_name, nearest, of_consumer=bool(further))


def belongs_to_consumers(name: str) -> bool:
    """True for a keyword that is named as an option that only Kafka's consumer has."""
    return name.replace("_", ".") in _CONSUMER_OPTIONS


def _unknown(
    name: str,
    java_name: str,
    nearest: str | None,
    *,
    of_consumer: bool = False,
    librdkafka: Container[str] = (),
) -> ConfigError:
    if reason := WITHOUT_EFFECT.get(java_name):
        return ConfigError(f"option {name!r} has no effect: {reason}")
    if java_name in _OTHER_CLIENTS:
        return ConfigError(f"{name!r} is another client's option; use {_OTHER_CLIENTS[java_name]}")
    if reason := _NEEDLESS.get(java_name):
        return ConfigError(f"{name!r} is another client's option; leave it out: {reason}")
    for beginning, reason in _NOT_YET.items():
        if java_name.startswith(beginning):
            return ConfigError(f"option {name!r}: {reason}")
    if java_name in _CONSUMER_OPTIONS and not of_consumer:
        return ConfigError(f"option {name!r} belongs to Kafka's consumer, not to the producer")
    suggestion = f"; did you mean {nearest!r}?" if nearest else ""
    if java_name in librdkafka and java_name not in BY_JAVA_NAME:
        suggestion = ": it is librdkafka's; ProducerConfig.from_librdkafka() reads those"
    return ConfigError(f"unknown option {name!r}{suggestion}")


def _nearest(name: str, known: dict[str, Option]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name.lower(), known, n=1)), None)
