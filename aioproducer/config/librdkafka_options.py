"""The options of librdkafka and confluent-kafka, one row for each, and those of consumers.

A row has the option's names, and ours, or the reason for which there is none. The functions before
the rows convert values as librdkafka writes them into values of our options.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.config.kinds import INT_MAX, LONG_MAX
from aioproducer.config.properties import Provider, Providers, Reference
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret

__all__ = [
    "COMPRESSION_LEVEL",
    "NO_EFFECT",
    "OAUTH_CONFIG",
    "Converted",
    "Row",
    "mapped",
    "refused",
    "authorities",
    "certificate_file",
    "cipher_suites",
    "codec",
    "flag",
    "grant_type",
    "host_name_check",
    "kibibytes",
    "partitioner",
    "pem_text",
    "pkcs12",
    "servers",
    "setup_timeout",
    "special",
    "text_of",
    "whole_milliseconds",
    "CONNECTION_ROWS",
    "DELIVERY_ROWS",
    "SECURITY_ROWS",
    "BY_NAME",
    "OF_CONSUMERS",
    "ROWS",
]


COMPRESSION_LEVEL: Final = "compression.level"
OAUTH_CONFIG: Final = "sasl.oauthbearer.config"
"""Options whose meaning depends on others: their own names stand in place of ours."""

Converted: TypeAlias = Mapping[str, Any]
"""Values by our options' names. A ``str`` is in the form of a properties file."""

NO_EFFECT: Final = "omit it: it has no effect here"


class Row(NamedTuple):
    """An option of librdkafka, or only of confluent-kafka."""

    names: tuple[str, ...]
    """Its name, then the aliases."""
    options: tuple[str, ...]
    """Our options that it sets; empty: it has no counterpart."""
    convert: Callable[[Any], Converted] | None
    """None: the first of ``options`` takes the value as it is."""
    note: str
    """The difference; for an option without counterpart, the thing to do instead."""
    harmless: tuple[str, ...]
    """The values of an option without counterpart that ask for what happens here anyway."""
    instead: str | None
    """Our option that replaces one without counterpart, if it is given beside the configuration."""


def mapped(
    names: str,
    options: str,
    convert: Callable[[Any], Converted] | None = None,
    note: str = "",
) -> Row:
    """An option with a counterpart; names and options are separated by spaces."""
    return Row(tuple(names.split()), tuple(options.split()), convert, note, (), None)


def refused(
    names: str, advice: str, *, harmless: tuple[str, ...] = (), instead: str | None = None
) -> Row:
    """An option without counterpart."""
    return Row(tuple(names.split()), (), None, advice, harmless, instead)


_PORT: Final = 9092
_FILE: Final = Providers((("dir", Provider("dir", automatic=False)),))
_RETRIEVER: Final = "org.apache.kafka.common.security.oauthbearer"
_PARTITIONERS: Final = {
    "random": "random",
    "consistent": "consistent",
    "consistent_random": "consistent_random",
    "murmur2": "murmur2_random",  # keyless records never reach their partitioners
    "murmur2_random": "murmur2_random",
    "fnv1a": "fnv1a",
    "fnv1a_random": "fnv1a",
}
"""Ours by librdkafka's names; where names differ, the partitions are the same."""


def text_of(value: Any) -> Any:
    """A value as confluent-kafka hands it to librdkafka; other types than numbers as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value


def _plain(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def flag(option: str) -> Callable[[Any], Converted]:
    """librdkafka's booleans: ``true``, ``t`` and ``1``, or ``false``, ``f`` and ``0``."""
    words = {"t": "true", "1": "true", "f": "false", "0": "false"}
    return lambda value: {option: words.get(str(value).strip().lower(), value)}


def special(option: str, theirs: str, ours: int) -> Callable[[Any], Converted]:
    """A number of which one value has a meaning of its own."""
    return lambda value: {option: ours if str(value).strip() == theirs else value}


def servers(value: Any) -> Converted:
    """A port that is not given is Kafka's usual one."""
    if not isinstance(value, str):
        return {"bootstrap_servers": value}
    addresses = [each.strip() for each in value.split(",") if each.strip()]
    return {"bootstrap_servers": ",".join(map(_with_port, addresses))}


def _with_port(address: str) -> str:
    host = address.rpartition("://")[2]
    return f"{address}:{_PORT}" if host.endswith("]") or ":" not in host else address


def whole_milliseconds(value: Any) -> Converted:
    """librdkafka takes fractions of a millisecond."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return {"linger_ms": value}
    if not number.is_integer():
        raise ConfigError("it must be whole milliseconds here: round it up or down")
    return {"linger_ms": int(number)}


def kibibytes(value: Any) -> Converted:
    """``queue.buffering.max.kbytes`` in bytes."""
    text = str(value).strip()
    return {"buffer_memory": int(text) * 1024 if text.isascii() and text.isdigit() else value}


def codec(value: Any) -> Converted:
    """``inherit``, the default of a topic, sets nothing."""
    return {} if str(value).strip().lower() == "inherit" else {"compression_type": value}


def partitioner(value: Any) -> Converted:
    """A partitioner of librdkafka's by its name; a callable is one of the user's own."""
    if not isinstance(value, str):
        return {"partitioner": value}
    name = _PARTITIONERS.get(value.strip())
    if name is None:
        raise ConfigError(
            f"{value!r} is none of {', '.join(_PARTITIONERS)}; pass another one as a keyword: "
            "from_librdkafka(…, partitioner=…)"
        )
    return {"partitioner": name}


def setup_timeout(value: Any) -> Converted:
    """One bound for every attempt: it does not grow with failures."""
    return {
        "socket_connection_setup_timeout_ms": value,
        "socket_connection_setup_timeout_max_ms": value,
    }


def grant_type(value: Any) -> Converted:
    """The two grants of OAuth, by Kafka's class names."""
    kinds = {
        "client_credentials": "ClientCredentialsJwtRetriever",
        "urn:ietf:params:oauth:grant-type:jwt-bearer": "JwtBearerJwtRetriever",
    }
    name = kinds.get(str(value).strip())
    if name is None:
        raise ConfigError(f"{value!r} is none of {', '.join(kinds)}")
    return {"sasl_oauthbearer_jwt_retriever_class": f"{_RETRIEVER}.{name}"}


# --- TLS -----------------------------------------------------------------------------------


def host_name_check(value: Any) -> Converted:
    """``none`` is the empty text here."""
    name = str(value).strip().lower()
    return {"ssl_endpoint_identification_algorithm": "" if name == "none" else value}


def cipher_suites(value: Any) -> Converted:
    """OpenSSL's list, without its words for groups of suites."""
    names = str(value).replace(":", ",").replace(" ", ",").split(",")
    wrong = [
        name for name in names if name and not name.replace("-", "").replace("_", "").isalnum()
    ]
    if wrong:
        raise ConfigError(f"{wrong[0]!r} is not a suite: list the suites one by one")
    return {"ssl_cipher_suites": ",".join(names)}


def authorities(value: Any) -> Converted:
    """A PEM file; ``probe`` means the system's authorities, which are the default here."""
    if str(value).strip() == "probe":
        return {}
    return {"ssl_truststore_location": value, "ssl_truststore_type": "PEM"}


def pem_text(option: str) -> Callable[[Any], Converted]:
    """A key, or certificates, as PEM text."""
    store = option.split("_")[1]
    return lambda value: {option: value, f"ssl_{store}_type": "PEM"}


def certificate_file(option: str) -> Callable[[Any], Converted]:
    """A file of its own for the key, or for the certificates: a placeholder that is read here."""

    def convert(value: Any) -> Converted:
        directory, name = posixpath.split(_plain(value))
        if not name or any(each in directory + name for each in ":}"):
            raise ConfigError(
                "a placeholder can't contain this path: put key and certificate into one PEM file,"
                " ssl_keystore_location with ssl_keystore_type='PEM'"
            )
        text = Secret(f"${{dir:{directory or '.'}:{name}}}")
        return {option: Reference(text, _FILE), "ssl_keystore_type": "PEM"}

    return convert


def pkcs12(value: Any) -> Converted:
    """librdkafka's keystores are PKCS#12."""
    return {"ssl_keystore_location": value, "ssl_keystore_type": "PKCS12"}


_LOGS: Final = "use Python's logging: the logger is 'aioproducer'"
_DEDICATED: Final = "omit it: it belongs to librdkafka's C API"
_OLD_BROKERS: Final = "omit it: every broker reports its versions, from Kafka 0.11 on"
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")

_CLIENT: Final = (
    mapped("metadata.broker.list bootstrap.servers", "bootstrap_servers", servers),
    mapped("client.id", "client_id"),
    mapped("enable.metrics.push", "enable_metrics_push", flag("enable_metrics_push")),
    mapped("client.rack", "client_rack", note="set partitioner_rack_aware as well"),
    refused("client.software.name client.software.version", NO_EFFECT),
    refused("builtin.features", "omit it: codecs and mechanisms are Python packages"),
    refused("plugin.library.paths", "omit it: there are no C plugins"),
    refused("interceptors", "use interceptor_classes", instead="interceptor_classes"),
    refused("opaque", "keep your own context: send() returns a future"),
    refused("internal.termination.signal", NO_EFFECT, harmless=("0",)),
    refused("enable.random.seed", NO_EFFECT, harmless=_TRUE),
    refused("enabled_events", NO_EFFECT, harmless=("0",)),
    refused("default_topic_conf", "omit it: topic options stand beside the others"),
    refused("default.topic.config", "use a dict; its options stand beside the others"),
    refused("test.mock.num.brokers test.mock.broker.rtt", "use aioproducer.testing.MockCluster"),
)

_CONNECTIONS: Final = (
    mapped("client.dns.lookup", "client_dns_lookup"),
    mapped(
        "socket.timeout.ms",
        "request_timeout_ms",
        note="at most message.timeout.ms minus linger.ms, as in librdkafka",
    ),
    mapped(
        "socket.send.buffer.bytes",
        "send_buffer_bytes",
        special("send_buffer_bytes", "0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.receive.buffer.bytes",
        "receive_buffer_bytes",
        special("receive_buffer_bytes", "0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.connection.setup.timeout.ms",
        "socket_connection_setup_timeout_ms socket_connection_setup_timeout_max_ms",
        setup_timeout,
        "every attempt has the same limit",
    ),
    mapped(
        "connections.max.idle.ms",
        "connections_max_idle_ms",
        special("connections_max_idle_ms", "0", -1),
        "0 (never) is -1 here",
    ),
    mapped(
        "reconnect.backoff.ms",
        "reconnect_backoff_ms",
        note="reconnect_backoff_max_ms is then 10,000, as in librdkafka, unless you set it too",
    ),
    mapped("reconnect.backoff.max.ms", "reconnect_backoff_max_ms"),
    refused("reconnect.backoff.jitter.ms", "omit it: the jitter is 20 %"),
    refused("socket.blocking.max.ms", NO_EFFECT),
    refused("socket.keepalive.enable", "omit it: it is always on", harmless=_TRUE),
    refused("socket.nagle.disable", "omit it: TCP_NODELAY is always set", harmless=_TRUE),
    refused("socket.max.fails", "omit it: a single timeout ends the connection", harmless=("1",)),
    refused("broker.address.ttl", "omit it: each attempt resolves the name again"),
    refused(
        "broker.address.family",
        "omit it: every address of a name is tried in turn",
        harmless=("any",),
    ),
    refused("enable.sparse.connections", "omit it: this is always so", harmless=_TRUE),
    refused("api.version.request", _OLD_BROKERS, harmless=_TRUE),
    refused(
        "api.version.request.timeout.ms",
        "use socket_connection_setup_timeout_ms",
        instead="socket_connection_setup_timeout_ms",
    ),
    refused("api.version.fallback.ms", _OLD_BROKERS, harmless=("0",)),
    refused("broker.version.fallback", _OLD_BROKERS),
    refused("receive.message.max.bytes", "omit it: the limits are built in"),
)

_METADATA: Final = (
    mapped(
        "topic.metadata.refresh.interval.ms",
        "metadata_max_age_ms",
        special("metadata_max_age_ms", "-1", LONG_MAX),
        "-1 becomes the largest number",
    ),
    mapped(
        "metadata.max.age.ms",
        "metadata_max_age_ms",
        note="in librdkafka metadata of this age is dropped, here it is fetched again",
    ),
    mapped("metadata.recovery.strategy", "metadata_recovery_strategy"),
    mapped("metadata.recovery.rebootstrap.trigger.ms", "metadata_recovery_rebootstrap_trigger_ms"),
    refused(
        "topic.metadata.refresh.fast.interval.ms",
        "use retry_backoff_ms",
        instead="retry_backoff_ms",
    ),
    refused("topic.metadata.refresh.fast.cnt", NO_EFFECT),
    refused("topic.metadata.refresh.sparse", "omit it: this is always so", harmless=_TRUE),
    refused(
        "topic.metadata.propagation.max.ms",
        "use max_block_ms, the time that a record waits for its topic",
        instead="max_block_ms",
    ),
    refused("topic.blacklist", "omit it: only topics that you send to are requested"),
    refused(
        "allow.auto.create.topics",
        "omit it: the brokers' auto.create.topics.enable decides",
        harmless=_TRUE,
    ),
)

_LOGGING: Final = (
    refused("debug", "set the level: logging.getLogger('aioproducer').setLevel(logging.DEBUG)"),
    refused("logger log_cb", _LOGS),
    refused("log_level", _LOGS),
    refused("log.queue log.thread.name log.connection.close", _LOGS),
    refused("statistics.interval.ms", "call Producer.metrics() at any time", harmless=("0",)),
    refused("stats_cb", "call Producer.metrics() at any time"),
    refused("throttle_cb", "call Producer.metrics(): produce-throttle-time-avg and -max"),
    refused("error_cb", "await the futures of send(), and call Producer.health()"),
)

_CALLBACKS: Final = (
    refused("on_delivery", "await the future of send(), or add a callback to it"),
    refused("dr_cb dr_msg_cb", "await the future of send(), or add a callback to it"),
    refused(
        "delivery.report.only.error",
        "omit it: a future that nobody awaits costs nothing",
        harmless=_FALSE,
    ),
    refused("partitioner_cb", "use partitioner, a callable", instead="partitioner"),
    refused(
        "key.serializer",
        "use key_serializer: a callable, or an object with serialize()",
        instead="key_serializer",
    ),
    refused(
        "value.serializer",
        "use value_serializer: a callable, or an object with serialize()",
        instead="value_serializer",
    ),
    refused("background_event_cb socket_cb connect_cb closesocket_cb", _DEDICATED),
    refused("open_cb resolve_cb", _DEDICATED),
    refused("msg_order_cmp", _DEDICATED),
)

CONNECTION_ROWS: Final = (*_CLIENT, *_CONNECTIONS, *_METADATA, *_LOGGING, *_CALLBACKS)


_SERIAL: Final = "omit it: records of a partition keep their order"

_BATCHES: Final = (
    mapped(
        "queue.buffering.max.ms linger.ms",
        "linger_ms",
        whole_milliseconds,
        "whole milliseconds; adapts by default",
    ),
    mapped("batch.size", "batch_size", note="not set, it adapts"),
    refused(
        "batch.num.messages",
        "use batch_size, in bytes; 0 sends each record in its own batch",
        instead="batch_size",
    ),
    mapped("queue.buffering.max.kbytes", "buffer_memory", kibibytes, "times 1,024"),
    refused(
        "queue.buffering.max.messages",
        "use buffer_memory, in bytes: the number of records is not limited here",
        harmless=("0",),
        instead="buffer_memory",
    ),
    refused("queue.buffering.backpressure.threshold", "omit it: batches grow automatically"),
    mapped("message.max.bytes", "max_request_size"),
    refused("message.copy.max.bytes", NO_EFFECT),
    mapped("compression.codec compression.type", "compression_type", codec),
    mapped(
        "compression.level",
        "compression_gzip_level compression_lz4_level compression_zstd_level",
        lambda value: {COMPRESSION_LEVEL: value},
        "the level of the chosen codec; LZ4's 0 is 9 here, its fast compressor",
    ),
)

_DELIVERY: Final = (
    mapped("request.required.acks acks", "acks", note="a number of replicas above 1 is refused"),
    mapped(
        "enable.idempotence",
        "enable_idempotence",
        flag("enable_idempotence"),
        "on by default here, unless max.in.flight is above 5",
    ),
    mapped(
        "max.in.flight.requests.per.connection max.in.flight",
        "max_in_flight_requests_per_connection",
        note="above 5, idempotence is off unless you set it",
    ),
    mapped("message.send.max.retries retries", "retries"),
    mapped("retry.backoff.ms", "retry_backoff_ms"),
    mapped("retry.backoff.max.ms", "retry_backoff_max_ms"),
    mapped(
        "message.timeout.ms delivery.timeout.ms",
        "delivery_timeout_ms",
        special("delivery_timeout_ms", "0", INT_MAX),
        "0 (infinite) becomes the largest number; request_timeout_ms shrinks to fit",
    ),
    mapped(
        "request.timeout.ms",
        "request_timeout_ms",
        note="the brokers' and the client's timeout are the same here: set only socket.timeout.ms",
    ),
    refused(
        "enable.gapless.guarantee",
        "omit it: a transaction is all or nothing",
        harmless=_FALSE,
    ),
    refused("queuing.strategy", _SERIAL, harmless=("fifo",)),
    refused("produce.offset.report", "omit it: every future gets its offset"),
)

_PARTITIONS: Final = (
    mapped(
        "partitioner",
        "partitioner",
        partitioner,
        "by default 'consistent_random', as in librdkafka: the CRC-32 of the key",
    ),
    refused(
        "sticky.partitioning.linger.ms",
        "omit it: the sticky partition changes after a full batch",
    ),
)

_TRANSACTIONS: Final = (
    mapped("transactional.id", "transactional_id"),
    mapped("transaction.timeout.ms", "transaction_timeout_ms"),
)

DELIVERY_ROWS: Final = (*_BATCHES, *_DELIVERY, *_PARTITIONS, *_TRANSACTIONS)


_CONTEXT: Final = "pass ssl_context, your own ssl.SSLContext"
_C_API: Final = "use the text or the file: ssl.key.pem, ssl.certificate.pem, ssl.ca.pem"
_KINIT: Final = (
    "omit it: the keytab logs in without kinit, or something else renews the ticket cache"
)
_PROVIDER: Final = "sasl_oauthbearer_token_provider"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_KEY: Final = "ssl_keystore_key"
_CHAIN: Final = "ssl_keystore_certificate_chain"
_AUTHORITIES: Final = "ssl_truststore_certificates"
_ASSERTION: Final = "sasl.oauthbearer.assertion"
_OURS: Final = "sasl_oauthbearer_assertion"


_TLS: Final = (
    mapped("security.protocol", "security_protocol"),
    mapped(
        "ssl.ca.location",
        "ssl_truststore_location ssl_truststore_type",
        authorities,
        "a PEM file, not a directory; 'probe' is the default here",
    ),
    mapped("ssl.ca.pem", f"{_AUTHORITIES} ssl_truststore_type", pem_text(_AUTHORITIES)),
    mapped(
        "ssl.certificate.location",
        f"{_CHAIN} ssl_keystore_type",
        certificate_file(_CHAIN),
        "each connection reads the file again",
    ),
    mapped("ssl.certificate.pem", f"{_CHAIN} ssl_keystore_type", pem_text(_CHAIN)),
    mapped(
        "ssl.key.location",
        f"{_KEY} ssl_keystore_type",
        certificate_file(_KEY),
        "each connection reads the file again; pickles contain its path",
    ),
    mapped("ssl.key.pem", f"{_KEY} ssl_keystore_type", pem_text(_KEY)),
    mapped("ssl.key.password", "ssl_key_password"),
    mapped("ssl.keystore.location", "ssl_keystore_location ssl_keystore_type", pkcs12),
    mapped("ssl.keystore.password", "ssl_keystore_password"),
    mapped("ssl.crl.location", "ssl_crl_location"),
    mapped("ssl.cipher.suites", "ssl_cipher_suites", cipher_suites, "names, not groups of suites"),
    mapped(
        "ssl.endpoint.identification.algorithm",
        "ssl_endpoint_identification_algorithm",
        host_name_check,
        "'none' is '' here",
    ),
    refused("enable.ssl.certificate.verification", _CONTEXT, harmless=_TRUE, instead="ssl_context"),
    refused("ssl.certificate.verify_cb", _CONTEXT, instead="ssl_context"),
    refused("ssl.curves.list ssl.sigalgs.list ssl.providers", _CONTEXT, instead="ssl_context"),
    refused("ssl.engine.location ssl.engine.id", _CONTEXT, instead="ssl_context"),
    refused("ssl.ca.certificate.stores", _CONTEXT, harmless=("Root",), instead="ssl_context"),
    refused("ssl_key ssl_certificate ssl_ca ssl_engine_callback_data", _C_API),
    refused(
        "https.ca.location https.ca.pem",
        "set ssl.ca.location: the token endpoint is checked against the same authorities",
    ),
)

_LOGINS: Final = (
    mapped("sasl.mechanisms sasl.mechanism", "sasl_mechanism", note="required for a login"),
    mapped("sasl.username", "sasl_username"),
    mapped("sasl.password", "sasl_password"),
    mapped(
        "sasl.kerberos.service.name",
        "sasl_kerberos_service_name",
        note="by default 'kafka' for GSSAPI, as in librdkafka",
    ),
    mapped("sasl.kerberos.principal", "sasl_kerberos_principal"),
    mapped("sasl.kerberos.keytab", "sasl_kerberos_keytab"),
    refused("sasl.kerberos.kinit.cmd", _KINIT),
    refused("sasl.kerberos.min.time.before.relogin", _KINIT, harmless=("0",)),
)

_TOKENS: Final = (
    mapped(
        "oauth_cb",
        _PROVIDER,
        lambda value: {_PROVIDER: value},
        "called in a thread with sasl.oauthbearer.config; it can return the same tuple",
    ),
    mapped(
        "sasl.oauthbearer.config",
        f"{_PROVIDER} {_PARAMETERS}",
        lambda value: {OAUTH_CONFIG: value},
        "the argument of oauth_cb, or the parameters of metadata authentication",
    ),
    refused("oauthbearer_token_refresh_cb", f"use {_PROVIDER}", instead=_PROVIDER),
    refused(
        "enable.sasl.oauthbearer.unsecure.jwt",
        f"provide unsigned tokens with {_PROVIDER}",
        harmless=_FALSE,
        instead=_PROVIDER,
    ),
    refused(
        "sasl.oauthbearer.method",
        "set sasl.oauthbearer.token.endpoint.url, or oauth_cb",
        harmless=("oidc", "default"),
    ),
    mapped(
        "sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id",
        "sasl_oauthbearer_client_credentials_client_id",
    ),
    mapped(
        "sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret",
        "sasl_oauthbearer_client_credentials_client_secret",
    ),
    mapped("sasl.oauthbearer.scope", "sasl_oauthbearer_scope"),
    mapped("sasl.oauthbearer.extensions", "sasl_oauthbearer_extensions"),
    mapped("sasl.oauthbearer.token.endpoint.url", "sasl_oauthbearer_token_endpoint_url"),
    mapped("sasl.oauthbearer.grant.type", "sasl_oauthbearer_jwt_retriever_class", grant_type),
    refused(
        "sasl.oauthbearer.sub.claim.name",
        "omit it: the broker reads the claim, not the client",
        harmless=("sub",),
    ),
    mapped(
        "sasl.oauthbearer.metadata.authentication.type",
        "sasl_oauthbearer_metadata_authentication_type",
    ),
    mapped(f"{_ASSERTION}.algorithm", f"{_OURS}_algorithm"),
    mapped(f"{_ASSERTION}.private.key.file", f"{_OURS}_private_key_file"),
    mapped(f"{_ASSERTION}.private.key.passphrase", f"{_OURS}_private_key_passphrase"),
    refused(
        f"{_ASSERTION}.private.key.pem",
        f"write the key into a file: {_OURS}_private_key_file",
        instead=f"{_OURS}_private_key_file",
    ),
    mapped(f"{_ASSERTION}.file", f"{_OURS}_file"),
    mapped(f"{_ASSERTION}.claim.aud", f"{_OURS}_claim_aud"),
    mapped(f"{_ASSERTION}.claim.iss", f"{_OURS}_claim_iss"),
    mapped(f"{_ASSERTION}.claim.sub", f"{_OURS}_claim_sub"),
    mapped(f"{_ASSERTION}.claim.exp.seconds", f"{_OURS}_claim_exp_seconds"),
    mapped(f"{_ASSERTION}.claim.nbf.seconds", f"{_OURS}_claim_nbf_seconds"),
    mapped(
        f"{_ASSERTION}.claim.jti.include",
        f"{_OURS}_claim_jti_include",
        flag(f"{_OURS}_claim_jti_include"),
    ),
    mapped(f"{_ASSERTION}.jwt.template.file", f"{_OURS}_template_file"),
)

SECURITY_ROWS: Final = (*_TLS, *_LOGINS, *_TOKENS)


ROWS: Final[tuple[Row, ...]] = (*CONNECTION_ROWS, *DELIVERY_ROWS, *SECURITY_ROWS)

BY_NAME: Final = {name: row for row in ROWS for name in row.names}
"""Aliases included."""

OF_CONSUMERS: Final = frozenset(
    {
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "consume.callback.max.messages",
        "consume_cb",
        "coordinator.query.interval.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "offset.store.method",
        "offset.store.path",
        "offset.store.sync.interval.ms",
        "offset_commit_cb",
        "on_commit",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "rebalance_cb",
        "session.timeout.ms",
        "share.acknowledgement.mode",
        "value.deserializer",
    }
)
"""librdkafka's producer ignores these with a warning."""
