"""A configuration of librdkafka or confluent-kafka into options of ours.

:data:`ROWS` has librdkafka's options and those of confluent-kafka, with ours or the reason for
which there is none. The functions before the rows convert values as librdkafka writes them; those
after them take a configuration, with the values that depend on librdkafka's defaults or on several
of its options. One error names all obstacles.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from aioproducer.config.cross_checks import MAX_IN_FLIGHT_FOR_IDEMPOTENCE
from aioproducer.config.kinds import INT_MAX, LONG_MAX, UnacceptableError
from aioproducer.config.options import ADAPTIVE_LINGER_MS, OPTIONS
from aioproducer.config.properties import Provider, Providers, Reference
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Hidden, Secret, hidden

__all__ = [
    "BY_NAME",
    "CONNECTION_ROWS",
    "DELIVERY_ROWS",
    "OF_CONSUMERS",
    "ROWS",
    "SECURITY_ROWS",
    "TUNING_ROWS",
    "OauthCallback",
    "Row",
    "hidden_librdkafka",
    "known_to_librdkafka",
    "may_be_secret",
    "options_of_librdkafka",
    "text_of",
]


_LEVEL: Final = "compression.level"
_OAUTH_CONFIG: Final = "sasl.oauthbearer.config"
"""Options whose meaning depends on others: their own names stand in place of ours."""

_Converted: TypeAlias = Mapping[str, Any]
"""Values by our options' names. A ``str`` is in the form of a properties file."""
_Convert: TypeAlias = Callable[[Any, tuple[str, ...]], _Converted]
"""Converts a value for our options with these names."""


class Row(NamedTuple):
    """An option of librdkafka, or only of confluent-kafka."""

    names: tuple[str, ...]
    """Its name, then the aliases."""
    options: tuple[str, ...] = ()
    """Our options that it sets; empty: it has no counterpart."""
    convert: _Convert | None = None
    """None: the first of ``options`` takes the value as it is."""
    note: str = ""
    """The difference; for an option without counterpart, the thing to do instead."""
    harmless: tuple[str, ...] = ()
    """The values of an option without counterpart that ask for what happens here anyway."""
    instead: str | None = None
    """Our option that replaces one without counterpart, if it is given beside the configuration."""


def mapped(names: str, options: str = "", convert: _Convert | None = None, note: str = "") -> Row:
    """An option with a counterpart; names and options are separated by spaces. Without options the
    counterpart has the same name."""
    options = options or names.split()[0].replace(".", "_")
    return Row(tuple(names.split()), tuple(options.split()), convert, note)


def refused(
    names: str, advice: str, *, harmless: tuple[str, ...] = (), instead: str | None = None
) -> Row:
    """An option without counterpart."""
    return Row(tuple(names.split()), note=advice, harmless=harmless, instead=instead)


def replaced(names: str, option: str, more: str = "", *, harmless: tuple[str, ...] = ()) -> Row:
    """An option without counterpart, in place of which there is one of ours."""
    return refused(names, f"use {option}{more}", harmless=harmless, instead=option)


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
_GRANTS: Final = {
    "client_credentials": "ClientCredentialsJwtRetriever",
    "urn:ietf:params:oauth:grant-type:jwt-bearer": "JwtBearerJwtRetriever",
}
"""The two grants of OAuth, by Kafka's class names."""


def text_of(value: Any) -> Any:
    """A value as confluent-kafka hands it to librdkafka; other types than numbers as they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value


def _every(value: Any, options: tuple[str, ...]) -> _Converted:
    return dict.fromkeys(options, value)


def _under(name: str) -> _Convert:
    """The value by librdkafka's own name, until the options beside it are known."""
    return lambda value, options: {name: value}


def _flag(value: Any, options: tuple[str, ...]) -> _Converted:
    """librdkafka's booleans: ``true``, ``t`` and ``1``, or ``false``, ``f`` and ``0``."""
    words = {"t": "true", "1": "true", "f": "false", "0": "false"}
    return {options[0]: words.get(str(value).strip().lower(), value)}


def _special(theirs: str, ours: Any) -> _Convert:
    """One value that has a meaning of its own."""
    return lambda value, options: {
        options[0]: ours if str(value).strip().lower() == theirs else value
    }


def _store(kind: str) -> _Convert:
    """A file or a text of this type of store."""
    return lambda value, options: {options[0]: value, options[1]: kind}


def _servers(value: Any, options: tuple[str, ...]) -> _Converted:
    """A port that is not given is Kafka's usual one."""
    if isinstance(value, str):
        value = ",".join(_with_port(each.strip()) for each in value.split(",") if each.strip())
    return {options[0]: value}


def _with_port(address: str) -> str:
    host = address.rpartition("://")[2]
    return f"{address}:9092" if host.endswith("]") or ":" not in host else address


def _whole_milliseconds(value: Any, options: tuple[str, ...]) -> _Converted:
    """librdkafka takes fractions of a millisecond."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return {options[0]: value}
    if not number.is_integer():
        raise ConfigError("it must be whole milliseconds here: round it up or down")
    return {options[0]: int(number)}


def _kibibytes(value: Any, options: tuple[str, ...]) -> _Converted:
    text = str(value).strip()
    return {options[0]: int(text) * 1024 if text.isascii() and text.isdigit() else value}


def _codec(value: Any, options: tuple[str, ...]) -> _Converted:
    """``inherit``, the default of a topic, sets nothing."""
    return {} if str(value).strip().lower() == "inherit" else {options[0]: value}


def _partitioner(value: Any, options: tuple[str, ...]) -> _Converted:
    """A partitioner of librdkafka's by its name; a callable is one of the user's own."""
    if not isinstance(value, str):
        return {options[0]: value}
    name = _PARTITIONERS.get(value.strip())
    if name is None:
        raise ConfigError(
            f"{value!r} is not one of {', '.join(_PARTITIONERS)}; pass another one as a keyword: "
            "from_librdkafka(…, partitioner=…)"
        )
    return {options[0]: name}


def _grant_type(value: Any, options: tuple[str, ...]) -> _Converted:
    name = _GRANTS.get(str(value).strip())
    if name is None:
        raise ConfigError(f"{value!r} is not one of {', '.join(_GRANTS)}")
    return {options[0]: f"{_RETRIEVER}.{name}"}


def _cipher_suites(value: Any, options: tuple[str, ...]) -> _Converted:
    """OpenSSL's list, without its words for groups of suites."""
    names = str(value).replace(":", ",").replace(" ", ",").split(",")
    for name in filter(None, names):
        if not name.replace("-", "").replace("_", "").isalnum():
            raise ConfigError(f"{name!r} is not a suite: list the suites one by one")
    return {options[0]: ",".join(names)}


def _authorities(value: Any, options: tuple[str, ...]) -> _Converted:
    """A PEM file; ``probe`` means the system's authorities, which are the default here."""
    return {} if str(value).strip() == "probe" else _store("PEM")(value, options)


def _certificate_file(value: Any, options: tuple[str, ...]) -> _Converted:
    """A file of its own for the key, or for the certificates: a placeholder that is read here."""
    path = value.reveal() if isinstance(value, Secret) else str(value)
    directory, name = posixpath.split(path)
    if not name or any(each in directory + name for each in ":}"):
        raise ConfigError(
            "a placeholder can't contain this path: put key and certificate into one PEM file,"
            " ssl_keystore_location with ssl_keystore_type='PEM'"
        )
    text = Secret(f"${{dir:{directory or '.'}:{name}}}")
    return _store("PEM")(Reference(text, _FILE), options)


_NO_EFFECT: Final = "omit it: it has no effect here"
_LOGS: Final = "use Python's logging: the logger is 'aioproducer'"
_DEDICATED: Final = "omit it: it belongs to librdkafka's C API"
_OLD_BROKERS: Final = "omit it: every broker reports its versions, from Kafka 0.11 on"
_TRUE: Final = ("true", "t", "1")
_FALSE: Final = ("false", "f", "0")

CONNECTION_ROWS: Final = (
    mapped("metadata.broker.list bootstrap.servers", "bootstrap_servers", _servers),
    mapped("client.id"),
    mapped("enable.metrics.push", convert=_flag),
    mapped("client.rack", note="set partitioner_rack_aware as well"),
    refused("plugin.library.paths", "omit it: there are no C plugins"),
    replaced("interceptors", "interceptor_classes"),
    refused("opaque", "keep your own context: send() returns a future"),
    refused("default_topic_conf", "omit it: pass topic options with the others"),
    refused("default.topic.config", "use a dict; its options are used like the others"),
    refused("test.mock.num.brokers test.mock.broker.rtt", "use aioproducer.testing.MockCluster"),
    # --- connections
    mapped("client.dns.lookup"),
    mapped(
        "socket.timeout.ms",
        "request_timeout_ms",
        note="at most message.timeout.ms minus linger.ms, as in librdkafka",
    ),
    mapped(
        "socket.send.buffer.bytes",
        "send_buffer_bytes",
        _special("0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.receive.buffer.bytes",
        "receive_buffer_bytes",
        _special("0", -1),
        "0 (the system's choice) is -1 here",
    ),
    mapped(
        "socket.connection.setup.timeout.ms",
        "socket_connection_setup_timeout_ms socket_connection_setup_timeout_max_ms",
        _every,
        "every attempt has the same limit",
    ),
    mapped("connections.max.idle.ms", convert=_special("0", -1), note="0 (never) is -1 here"),
    mapped(
        "reconnect.backoff.ms",
        note="reconnect_backoff_max_ms is then 10,000, as in librdkafka, unless you set it too",
    ),
    mapped("reconnect.backoff.max.ms"),
    # --- metadata
    mapped(
        "topic.metadata.refresh.interval.ms",
        "metadata_max_age_ms",
        _special("-1", LONG_MAX),
        "-1 becomes the largest number",
    ),
    mapped(
        "metadata.max.age.ms",
        note="in librdkafka metadata of this age is dropped, here it is fetched again",
    ),
    mapped("metadata.recovery.strategy"),
    mapped("metadata.recovery.rebootstrap.trigger.ms"),
    replaced(
        "topic.metadata.propagation.max.ms",
        "max_block_ms",
        ", the time that a record waits for its topic",
    ),
    refused(
        "allow.auto.create.topics",
        "omit it: the brokers' auto.create.topics.enable decides",
        harmless=_TRUE,
    ),
    # --- logging
    refused("logger log_cb", _LOGS),
    refused("statistics.interval.ms", "call Producer.metrics() at any time", harmless=("0",)),
    refused("stats_cb", "call Producer.metrics() at any time"),
    refused("throttle_cb", "call Producer.metrics(): produce-throttle-time-avg and -max"),
    refused("error_cb", "await the futures of send(), and call Producer.health()"),
    # --- callbacks
    refused("on_delivery", "await the future of send(), or add a callback to it"),
    refused("dr_cb dr_msg_cb", "await the future of send(), or add a callback to it"),
    refused(
        "delivery.report.only.error",
        "omit it: a future that nobody awaits costs nothing",
        harmless=_FALSE,
    ),
    replaced("partitioner_cb", "partitioner", ", a callable"),
    replaced("key.serializer", "key_serializer", ": a callable, or an object with serialize()"),
    replaced("value.serializer", "value_serializer", ": a callable, or an object with serialize()"),
    refused("background_event_cb socket_cb connect_cb closesocket_cb", _DEDICATED),
    refused("open_cb resolve_cb", _DEDICATED),
    refused("msg_order_cmp", _DEDICATED),
)


DELIVERY_ROWS: Final = (
    mapped(
        "queue.buffering.max.ms linger.ms",
        "linger_ms",
        _whole_milliseconds,
        "whole milliseconds; adapts by default",
    ),
    mapped("batch.size", note="not set, it adapts"),
    mapped("queue.buffering.max.kbytes", "buffer_memory", _kibibytes, "times 1,024"),
    replaced(
        "queue.buffering.max.messages",
        "buffer_memory",
        ", in bytes: the number of records is not limited here",
        harmless=("0",),
    ),
    mapped("message.max.bytes", "max_request_size"),
    mapped("compression.codec compression.type", "compression_type", _codec),
    mapped(
        "compression.level",
        "compression_gzip_level compression_lz4_level compression_zstd_level",
        _under(_LEVEL),
        "the level of the chosen codec; LZ4's 0 is 9 here, its fast compressor",
    ),
    # --- delivery
    mapped("request.required.acks acks", "acks", note="a number of replicas above 1 is refused"),
    mapped(
        "enable.idempotence",
        convert=_flag,
        note="on by default here, unless max.in.flight is above 5",
    ),
    mapped(
        "max.in.flight.requests.per.connection max.in.flight",
        note="above 5, idempotence is off unless you set it",
    ),
    mapped("message.send.max.retries retries", "retries"),
    mapped("retry.backoff.ms"),
    mapped("retry.backoff.max.ms"),
    mapped(
        "message.timeout.ms delivery.timeout.ms",
        "delivery_timeout_ms",
        _special("0", INT_MAX),
        "0 (infinite) becomes the largest number; request_timeout_ms shrinks to fit",
    ),
    mapped(
        "request.timeout.ms",
        note="the brokers' and the client's timeout are the same here: set only socket.timeout.ms",
    ),
    refused(
        "enable.gapless.guarantee", "omit it: a transaction is all or nothing", harmless=_FALSE
    ),
    # --- partitions
    mapped(
        "partitioner",
        convert=_partitioner,
        note="by default 'consistent_random', as in librdkafka: the CRC-32 of the key",
    ),
    # --- transactions
    mapped("transactional.id"),
    mapped("transaction.timeout.ms"),
)


_SERIAL: Final = "omit it: records of a partition keep their order"

TUNING_ROWS: Final = (
    refused("client.software.name client.software.version", _NO_EFFECT),
    refused("builtin.features", "omit it: codecs and mechanisms are Python packages"),
    refused("internal.termination.signal", _NO_EFFECT, harmless=("0",)),
    refused("enable.random.seed", _NO_EFFECT, harmless=_TRUE),
    refused("enabled_events", _NO_EFFECT, harmless=("0",)),
    refused("reconnect.backoff.jitter.ms", "omit it: the jitter is 20%"),
    refused("socket.blocking.max.ms", _NO_EFFECT),
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
    replaced("api.version.request.timeout.ms", "socket_connection_setup_timeout_ms"),
    refused("api.version.fallback.ms", _OLD_BROKERS, harmless=("0",)),
    refused("broker.version.fallback", _OLD_BROKERS),
    refused("receive.message.max.bytes", "omit it: the limits are built in"),
    replaced("topic.metadata.refresh.fast.interval.ms", "retry_backoff_ms"),
    refused("topic.metadata.refresh.fast.cnt", _NO_EFFECT),
    refused("topic.metadata.refresh.sparse", "omit it: this is always so", harmless=_TRUE),
    refused("topic.blacklist", "omit it: only topics that you send to are requested"),
    refused("debug", "set the level: logging.getLogger('aioproducer').setLevel(logging.DEBUG)"),
    refused("log_level", _LOGS),
    refused("log.queue log.thread.name log.connection.close", _LOGS),
    replaced(
        "batch.num.messages", "batch_size", ", in bytes; 0 sends each record in its own batch"
    ),
    refused("queue.buffering.backpressure.threshold", "omit it: batches grow automatically"),
    refused("message.copy.max.bytes", _NO_EFFECT),
    refused("queuing.strategy", _SERIAL, harmless=("fifo",)),
    refused("produce.offset.report", "omit it: every future gets its offset"),
    refused(
        "sticky.partitioning.linger.ms", "omit it: the sticky partition changes after a full batch"
    ),
)
"""They tune librdkafka. Here they are refused, because nothing is ignored in silence;
``compat.confluent`` drops them with a line in the log."""


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


SECURITY_ROWS: Final = (
    mapped("security.protocol"),
    mapped(
        "ssl.ca.location",
        "ssl_truststore_location ssl_truststore_type",
        _authorities,
        "a PEM file, not a directory; 'probe' is the default here",
    ),
    mapped("ssl.ca.pem", f"{_AUTHORITIES} ssl_truststore_type", _store("PEM")),
    mapped(
        "ssl.certificate.location",
        f"{_CHAIN} ssl_keystore_type",
        _certificate_file,
        "each connection reads the file again",
    ),
    mapped("ssl.certificate.pem", f"{_CHAIN} ssl_keystore_type", _store("PEM")),
    mapped(
        "ssl.key.location",
        f"{_KEY} ssl_keystore_type",
        _certificate_file,
        "each connection reads the file again; pickles contain its path",
    ),
    mapped("ssl.key.pem", f"{_KEY} ssl_keystore_type", _store("PEM")),
    mapped("ssl.key.password"),
    mapped("ssl.keystore.location", "ssl_keystore_location ssl_keystore_type", _store("PKCS12")),
    mapped("ssl.keystore.password"),
    mapped("ssl.crl.location"),
    mapped("ssl.cipher.suites", convert=_cipher_suites, note="names, not groups of suites"),
    mapped(
        "ssl.endpoint.identification.algorithm",
        convert=_special("none", ""),
        note="'none' is '' here",
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
    # --- logins
    mapped("sasl.mechanisms sasl.mechanism", "sasl_mechanism", note="required for a login"),
    mapped("sasl.username"),
    mapped("sasl.password"),
    mapped("sasl.kerberos.service.name", note="by default 'kafka' for GSSAPI, as in librdkafka"),
    mapped("sasl.kerberos.principal"),
    mapped("sasl.kerberos.keytab"),
    refused("sasl.kerberos.kinit.cmd", _KINIT),
    refused("sasl.kerberos.min.time.before.relogin", _KINIT, harmless=("0",)),
    # --- tokens
    mapped(
        "oauth_cb",
        _PROVIDER,
        note="called in a thread with sasl.oauthbearer.config; it can return the same tuple",
    ),
    mapped(
        "sasl.oauthbearer.config",
        f"{_PROVIDER} {_PARAMETERS}",
        _under(_OAUTH_CONFIG),
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
    mapped("sasl.oauthbearer.scope"),
    mapped("sasl.oauthbearer.extensions"),
    mapped("sasl.oauthbearer.token.endpoint.url"),
    mapped("sasl.oauthbearer.grant.type", "sasl_oauthbearer_jwt_retriever_class", _grant_type),
    refused(
        "sasl.oauthbearer.sub.claim.name",
        "omit it: the broker reads the claim, not the client",
        harmless=("sub",),
    ),
    mapped("sasl.oauthbearer.metadata.authentication.type"),
    mapped("sasl.oauthbearer.assertion.algorithm"),
    mapped("sasl.oauthbearer.assertion.private.key.file"),
    mapped("sasl.oauthbearer.assertion.private.key.passphrase"),
    refused(
        "sasl.oauthbearer.assertion.private.key.pem",
        "write the key into a file: sasl_oauthbearer_assertion_private_key_file",
        instead="sasl_oauthbearer_assertion_private_key_file",
    ),
    mapped("sasl.oauthbearer.assertion.file"),
    mapped("sasl.oauthbearer.assertion.claim.aud"),
    mapped("sasl.oauthbearer.assertion.claim.iss"),
    mapped("sasl.oauthbearer.assertion.claim.sub"),
    mapped("sasl.oauthbearer.assertion.claim.exp.seconds"),
    mapped("sasl.oauthbearer.assertion.claim.nbf.seconds"),
    mapped("sasl.oauthbearer.assertion.claim.jti.include", convert=_flag),
    mapped(
        "sasl.oauthbearer.assertion.jwt.template.file", "sasl_oauthbearer_assertion_template_file"
    ),
)


ROWS: Final[tuple[Row, ...]] = (
    *CONNECTION_ROWS,
    *DELIVERY_ROWS,
    *SECURITY_ROWS,
    *TUNING_ROWS,
)

BY_NAME: Final = {name: row for row in ROWS for name in row.names}
"""Aliases included."""

_OF_CONSUMERS: Final = """
    auto.commit.enable auto.commit.interval.ms auto.offset.reset check.crcs
    consume.callback.max.messages consume_cb coordinator.query.interval.ms
    enable.auto.commit enable.auto.offset.store enable.partition.eof fetch.error.backoff.ms
    fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms
    fetch.wait.max.ms group.id group.instance.id group.protocol group.protocol.type
    group.remote.assignor heartbeat.interval.ms isolation.level key.deserializer
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records offset.store.method
    offset.store.path offset.store.sync.interval.ms offset_commit_cb on_commit
    partition.assignment.strategy queued.max.messages.kbytes queued.min.messages
    rebalance_cb session.timeout.ms share.acknowledgement.mode value.deserializer
"""
OF_CONSUMERS: Final = frozenset(_OF_CONSUMERS.split())
"""librdkafka's producer ignores these with a warning."""


_RECONNECT_BACKOFF_MAX_MS: Final = 10_000
_DEFAULT_LEVEL: Final = -1
_LZ4_FAST: Final = 9
"""The level of LZ4's fast compressor here, as in Kafka; librdkafka's is 0."""
_LEVELS: Final = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}
_METADATA_TYPE: Final = "sasl_oauthbearer_metadata_authentication_type"
_TYPE: Final = "sasl.oauthbearer.metadata.authentication.type"
_SERVICE_NAME: Final = "sasl_kerberos_service_name"


@dataclass(frozen=True, slots=True)
class OauthCallback:
    """confluent-kafka's ``oauth_cb`` as a token provider.

    It is called with ``sasl.oauthbearer.config``, a ``str``, or with None if that is not set.
    """

    callback: Any
    config: Secret | None

    def __call__(self) -> Any:
        """The callback's answer."""
        return self.callback(None if self.config is None else self.config.reveal())


def _settle(values: dict[str, Any], overrides: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Complete ``values``, our options, in place; yields obstacles by librdkafka's names."""
    yield from _settle_level(values)
    yield from _settle_tokens(values)
    fixed = {*values, *overrides}
    if "partitioner" not in fixed:
        values["partitioner"] = "consistent_random"
    in_flight = values.get("max_in_flight_requests_per_connection", 0)
    if (
        in_flight > MAX_IN_FLIGHT_FOR_IDEMPOTENCE
        and not {"enable_idempotence", "transactional_id"} & fixed
    ):
        values["enable_idempotence"] = False
    if "reconnect_backoff_ms" in values and "reconnect_backoff_max_ms" not in fixed:
        values["reconnect_backoff_max_ms"] = _RECONNECT_BACKOFF_MAX_MS
    if _SERVICE_NAME not in fixed and _is_kerberos(values):
        values[_SERVICE_NAME] = "kafka"
    if "request_timeout_ms" not in overrides and "delivery_timeout_ms" in values:
        _settle_request_timeout(values, {**values, **overrides}.get("linger_ms"))


def _settle_request_timeout(values: dict[str, Any], linger: Any) -> None:
    """No request takes longer than the record that it carries may."""
    linger = linger if isinstance(linger, int) else ADAPTIVE_LINGER_MS
    request = values.get("request_timeout_ms", OPTIONS["request_timeout_ms"].default)
    left = values["delivery_timeout_ms"] - linger
    if 0 < left < request:
        values["request_timeout_ms"] = left


def _settle_level(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    given = values.pop(_LEVEL, None)
    option = _LEVELS.get(values.get("compression_type", "none"))
    if given is None or str(given).strip() == str(_DEFAULT_LEVEL) or option is None:
        return
    if option == _LEVELS["lz4"] and str(given).strip() == "0":
        given = str(_LZ4_FAST)
    kind = OPTIONS[option].kind
    try:
        values[option] = kind.parse(str(given))
    except UnacceptableError as error:
        yield _LEVEL, f"{option} here: expected {error}"


def _settle_tokens(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    config = values.pop(_OAUTH_CONFIG, None)
    callback = values.get(_PROVIDER)
    if callable(callback):
        text = config if config is None or isinstance(config, Secret) else Secret(str(config))
        values[_PROVIDER] = OauthCallback(callback, text)
        values.pop(_METADATA_TYPE, None)  # librdkafka asks the callback
    elif config is None or isinstance(config, Hidden):
        return
    elif values.get(_METADATA_TYPE, "none") != "none":
        values[_PARAMETERS] = config.reveal() if isinstance(config, Secret) else config
    else:
        yield _OAUTH_CONFIG, f"no counterpart without oauth_cb or {_TYPE}; use {_PROVIDER}"


def _is_kerberos(values: dict[str, Any]) -> bool:
    if not str(values.get("security_protocol", "")).startswith("SASL_"):
        return False
    mechanism = values.get("sasl_mechanism")
    named = any(name.startswith("sasl_kerberos_") for name in values)
    return mechanism == "GSSAPI" or (mechanism is None and named)


_TOPIC_CONFIG: Final = "default.topic.config"


@dataclass(slots=True)
class _Found:
    """The values found so far, and the obstacles."""

    values: dict[str, Any] = field(default_factory=dict)
    set_by: dict[str, str] = field(default_factory=dict)
    """Their names by ours."""
    obstacles: list[tuple[str, str]] = field(default_factory=list)


def hidden_librdkafka(config: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which every value that may be a secret is wrapped.

    The options of ``default.topic.config`` are among the others. Those that are None are left out:
    librdkafka uses its defaults for them.
    """
    topic = config.get(_TOPIC_CONFIG)
    flat = {**config, **topic} if isinstance(topic, Mapping) else dict(config)
    if isinstance(topic, Mapping):
        del flat[_TOPIC_CONFIG]
    return {
        name: hidden(text_of(value)) if may_be_secret(name, value) else text_of(value)
        for name, value in flat.items()
        if value is not None
    }


def options_of_librdkafka(
    config: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Our options for the values of :func:`hidden_librdkafka`; those with placeholders are
    references.

    An option of theirs is not looked at if one of ours that stands for it is in ``overrides``.

    Raises:
        ConfigError: options have no counterpart, are unknown or have a wrong value; the message
            names all of them, and no secret.
    """
    found = _Found()
    for name, value in config.items():
        row = BY_NAME.get(name)
        if row is None:
            found.obstacles.append((name, _unknown(name)))
        elif not _is_replaced(row, overrides):
            _take(found, row, name, value)
    found.obstacles += _settle(found.values, overrides)
    if found.obstacles:
        raise ConfigError(_message(found.obstacles))
    return found.values


def known_to_librdkafka(name: str) -> bool:
    """True if it is the name of an option of librdkafka or of confluent-kafka."""
    return name in BY_NAME or name in OF_CONSUMERS


def may_be_secret(name: object, value: object) -> bool:
    """True if no traceback is to show the value of an option with this name."""
    row = BY_NAME.get(name) if isinstance(name, str) else None
    if row is None or callable(value):
        return row is None
    if not row.options:
        return not row.harmless
    return OPTIONS[row.options[0]].kind.hides(value)


def _is_replaced(row: Row, overridden: Collection[str]) -> bool:
    replacing = {row.instead, *row.options}
    if any(name.startswith("ssl_") for name in row.options):
        replacing.add("ssl_context")
    return any(name in replacing for name in overridden)


def _take(found: _Found, row: Row, name: str, value: Any) -> None:
    if not row.options:
        if str(value).strip().lower() not in map(str.lower, row.harmless):
            found.obstacles.append((name, f"no counterpart; {row.note}"))
        return
    try:
        taken = dict(_accepted(row, name, value))
    except ConfigError as error:
        found.obstacles.append((name, str(error).removeprefix(f"{name}: ")))
        return
    for option, accepted in taken.items():
        if option not in found.values:
            found.values[option], found.set_by[option] = accepted, name
        elif found.values[option] != accepted:
            other = found.set_by[option]
            found.obstacles.append(
                (name, f"{option} here, and so is {other} with another value: keep one")
            )


def _accepted(row: Row, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    given = {row.options[0]: value} if row.convert is None else row.convert(value, row.options)
    for option, each in given.items():
        if option in OPTIONS and not isinstance(each, Reference):
            yield option, OPTIONS[option]._replace(java_name=name).accept_property(each)
        else:
            yield option, each


def _unknown(name: object) -> str:
    if name in OF_CONSUMERS:
        return "an option of consumers; omit it"
    if not isinstance(name, str):
        return "not the name of an option: it is not a str"
    if name.replace("_", ".") in BY_NAME:
        return f"unknown; did you mean {name.replace('_', '.')!r}?"
    if name in OPTIONS:
        return f"an option of this producer; pass it as a keyword: from_librdkafka(…, {name}=…)"
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower(), BY_NAME, n=1)
    return f"unknown; did you mean {nearest[0]!r}?" if nearest else "unknown"


def _message(obstacles: list[tuple[str, str]]) -> str:
    if len(obstacles) == 1:
        [(name, problem)] = obstacles
        return f"librdkafka's option {name!r}: {problem}"
    lines = (f"\n{name!r}: {problem}" for name, problem in obstacles)
    return f"{len(obstacles)} of librdkafka's options can't be used:{''.join(lines)}"
