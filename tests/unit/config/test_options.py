"""Defaults, ranges and importance against the real Java client's ``ProducerConfig.configDef()``."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.config import ProducerConfig, ProducerOptions, Secret
from aioproducer.config.__main__ import meanings
from aioproducer.config.names import BY_JAVA_NAME, WITHOUT_EFFECT
from aioproducer.config.options import OPTIONS, Group, Importance
from aioproducer.config.reader_options import READER_OPTIONS, ReaderKeywords, ReaderOptions
from aioproducer.errors import ConfigError

INT_MAX = 2**31 - 1

OAUTH = "org.apache.kafka.common.security.oauthbearer"

# Printed by kafka-clients 4.4.0: name, default, importance; lists and nulls as Python writes them.
KAFKA_4 = [
    ("acks", "all", "LOW"),
    ("bootstrap.resolve.timeout.ms", 0, "HIGH"),
    ("buffer.memory", 33554432, "HIGH"),
    ("client.rack", "", "LOW"),
    ("partitioner.rack.aware", False, "LOW"),
    ("client.dns.lookup", "use_all_dns_ips", "MEDIUM"),
    ("compression.gzip.level", -1, "MEDIUM"),
    ("compression.lz4.level", 9, "MEDIUM"),
    ("compression.type", "none", "HIGH"),
    ("compression.zstd.level", 3, "MEDIUM"),
    ("connections.max.idle.ms", 540000, "MEDIUM"),
    ("delivery.timeout.ms", 120000, "MEDIUM"),
    ("enable.idempotence", True, "LOW"),
    ("enable.metrics.push", True, "LOW"),
    ("interceptor.classes", (), "LOW"),
    ("max.block.ms", 60000, "MEDIUM"),
    ("max.in.flight.requests.per.connection", 5, "LOW"),
    ("max.request.size", 1048576, "MEDIUM"),
    ("metadata.cluster.check.enable", True, "LOW"),
    ("metadata.max.age.ms", 300000, "LOW"),
    ("metadata.max.idle.ms", 300000, "LOW"),
    ("metadata.recovery.rebootstrap.trigger.ms", 300000, "LOW"),
    ("metadata.recovery.strategy", "rebootstrap", "LOW"),
    ("metrics.num.samples", 2, "LOW"),
    ("metrics.sample.window.ms", 30000, "LOW"),
    ("partitioner.adaptive.partitioning.enable", True, "LOW"),
    ("partitioner.availability.timeout.ms", 0, "LOW"),
    ("partitioner.class", None, "MEDIUM"),
    ("partitioner.ignore.keys", False, "MEDIUM"),
    ("reconnect.backoff.max.ms", 1000, "LOW"),
    ("reconnect.backoff.ms", 50, "LOW"),
    ("request.timeout.ms", 30000, "MEDIUM"),
    ("retries", INT_MAX, "HIGH"),
    ("retry.backoff.max.ms", 1000, "LOW"),
    ("retry.backoff.ms", 100, "LOW"),
    ("sasl.jaas.config", None, "MEDIUM"),
    ("security.protocol", "PLAINTEXT", "MEDIUM"),
    ("socket.connection.setup.timeout.max.ms", 30000, "MEDIUM"),
    ("socket.connection.setup.timeout.ms", 10000, "MEDIUM"),
    ("transaction.timeout.ms", 60000, "LOW"),
    ("transactional.id", None, "LOW"),
    ("sasl.client.callback.handler.class", None, "MEDIUM"),
    ("sasl.kerberos.service.name", None, "MEDIUM"),
    ("sasl.login.callback.handler.class", None, "MEDIUM"),
    ("sasl.login.class", None, "MEDIUM"),
    ("sasl.login.connect.timeout.ms", None, "LOW"),
    ("sasl.login.read.timeout.ms", None, "LOW"),
    ("sasl.login.refresh.buffer.seconds", 300, "LOW"),
    ("sasl.login.refresh.min.period.seconds", 60, "LOW"),
    ("sasl.login.refresh.window.factor", 0.8, "LOW"),
    ("sasl.login.refresh.window.jitter", 0.05, "LOW"),
    ("sasl.login.retry.backoff.max.ms", 10000, "LOW"),
    ("sasl.login.retry.backoff.ms", 100, "LOW"),
    ("sasl.oauthbearer.assertion.algorithm", "RS256", "MEDIUM"),
    ("sasl.oauthbearer.assertion.claim.aud", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", 300, "LOW"),
    ("sasl.oauthbearer.assertion.claim.iss", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.claim.jti.include", False, "MEDIUM"),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, "LOW"),
    ("sasl.oauthbearer.assertion.claim.sub", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.file", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.private.key.file", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.private.key.passphrase", None, "MEDIUM"),
    ("sasl.oauthbearer.assertion.template.file", None, "MEDIUM"),
    ("sasl.oauthbearer.client.credentials.client.id", None, "MEDIUM"),
    ("sasl.oauthbearer.client.credentials.client.secret", None, "MEDIUM"),
    ("sasl.oauthbearer.header.urlencode", False, "LOW"),
    ("sasl.oauthbearer.jwt.retriever.class", f"{OAUTH}.DefaultJwtRetriever", "MEDIUM"),
    ("sasl.oauthbearer.scope", None, "MEDIUM"),
    ("sasl.oauthbearer.token.endpoint.url", None, "MEDIUM"),
    ("ssl.cipher.suites", (), "LOW"),
    ("ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), "MEDIUM"),
    ("ssl.endpoint.identification.algorithm", "https", "LOW"),
    ("ssl.key.password", None, "HIGH"),
    ("ssl.keystore.certificate.chain", None, "HIGH"),
    ("ssl.keystore.key", None, "HIGH"),
    ("ssl.keystore.location", None, "HIGH"),
    ("ssl.keystore.password", None, "HIGH"),
    ("ssl.keystore.type", "JKS", "MEDIUM"),
    ("ssl.protocol", "TLSv1.3", "MEDIUM"),
    ("ssl.truststore.certificates", None, "HIGH"),
    ("ssl.truststore.location", None, "HIGH"),
    ("ssl.truststore.password", None, "HIGH"),
    ("ssl.truststore.type", "JKS", "MEDIUM"),
]
DIFFERENT: list[tuple[str, object, str]] = [
    ("client.id", None, "MEDIUM"),  # Java: "", replaced by producer-N
    ("batch.size", None, "MEDIUM"),  # Java: 16384
    ("linger.ms", None, "MEDIUM"),  # Java: 5
    ("key.serializer", None, "HIGH"),  # Java: required
    ("value.serializer", None, "HIGH"),
    ("sasl.mechanism", None, "MEDIUM"),  # Java: GSSAPI
    ("receive.buffer.bytes", -1, "MEDIUM"),  # Java: 32768
    ("send.buffer.bytes", -1, "MEDIUM"),  # Java: 131072
]
REQUIRED = "bootstrap.servers"
OF_OUR_OWN = {
    "proxy.url",
    "ssl.context",
    "ssl.crl.location",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.aws.profile.name",
    "sasl.aws.role.arn",
    "sasl.aws.role.session.name",
    "sasl.aws.role.external.id",
    "sasl.aws.sts.region",
    "sasl.aws.region",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.metadata.authentication.type",
    "sasl.credentials.provider",
    "sasl.oauthbearer.token.provider",
    "sasl.oauthbearer.extensions",
    "on.failed",
}


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "localhost:9092", **options})


@pytest.mark.parametrize(("java_name", "default", "importance"), KAFKA_4 + DIFFERENT)
def test_default_and_importance(java_name: str, default: object, importance: str) -> None:
    option = BY_JAVA_NAME[java_name]
    value = getattr(config(), option.name)
    assert value == default
    assert type(value) is type(default)
    assert option.importance is Importance[importance]


def test_the_defaults_above_are_all_of_them() -> None:
    javas = {row[0] for row in KAFKA_4 + DIFFERENT} | {REQUIRED}
    assert set(BY_JAVA_NAME) == javas | OF_OUR_OWN
    assert not javas & OF_OUR_OWN
    assert [name for name, option in OPTIONS.items() if option.required] == ["bootstrap_servers"]
    assert not set(BY_JAVA_NAME) & set(WITHOUT_EFFECT)


def test_every_default_passes_its_own_check_unchanged() -> None:
    for option in OPTIONS.values():
        if not option.required:
            assert option.accept(option.default) == option.default


def test_the_keywords_are_the_options() -> None:
    assert ProducerOptions.__annotations__.keys() == OPTIONS.keys()


def test_the_options_of_a_reader_are_keywords_with_good_defaults() -> None:
    assert ReaderKeywords.__annotations__.keys() == READER_OPTIONS.keys()
    for option in READER_OPTIONS.values():
        assert option.accept(option.default) == option.default
    assert ReaderOptions().isolation_level == "read_uncommitted"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isolation_level", "serializable"),
        ("auto_offset_reset", "beginning"),
        ("read_ahead_bytes", 0),
        ("fetch_max_wait_ms", -1),
        ("check_crcs", "maybe"),
    ],
)
def test_an_option_of_a_reader_is_checked(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        ReaderOptions(**{name: value})


def test_options_of_a_reader_that_are_refused_have_a_repr() -> None:
    with pytest.raises(ConfigError) as refused:
        ReaderOptions(read_ahead_bytes=0)
    assert refused.traceback[1].frame.f_locals["self"].__repr__().startswith("ReaderOptions(")


def test_the_options_stand_group_by_group() -> None:
    groups = [option.group for option in (*OPTIONS.values(), *READER_OPTIONS.values())]
    assert list(dict.fromkeys(groups)) == list(Group)
    assert groups == sorted(groups, key=list(Group).index)


def test_every_option_has_a_meaning_and_a_difference_is_explained() -> None:
    assert meanings().keys() == OPTIONS.keys() | READER_OPTIONS.keys()
    assert {option.java_name for option in OPTIONS.values() if option.kafka_default} == {
        "batch.size",
        "linger.ms",
        "key.serializer",
        "value.serializer",
        "sasl.mechanism",
        "receive.buffer.bytes",
        "send.buffer.bytes",
    }


RANGES: list[tuple[str, list[Any], list[Any]]] = [
    ("batch_size", [None, 0, 1], [-1, INT_MAX + 1]),
    ("bootstrap_resolve_timeout_ms", [0, 2**62], [-1, 0.5, 2**63]),
    ("buffer_memory", [21846, 2**62], [0, -1, 2**63]),
    ("compression_gzip_level", [-1, 1, 9], [0, 10, -2]),
    ("compression_lz4_level", [1, 17], [0, 18, -1]),
    ("compression_zstd_level", [-131072, 0, 22], [-131073, 23]),
    ("connections_max_idle_ms", [-1, 0], [-2]),
    ("delivery_timeout_ms", [INT_MAX], [-1, INT_MAX + 1]),
    ("linger_ms", [None, 0, 90000], [-1, 0.5, "5"]),
    ("max_block_ms", [0], [-1]),
    ("max_in_flight_requests_per_connection", [1, 5], [0, -1]),
    ("max_request_size", [1, INT_MAX], [0, INT_MAX + 1]),
    ("metadata_max_age_ms", [0], [-1]),
    ("metadata_max_idle_ms", [5000], [4999]),
    ("metadata_recovery_rebootstrap_trigger_ms", [0], [-1]),
    ("metrics_num_samples", [1], [0]),
    ("metrics_sample_window_ms", [0], [-1]),
    ("partitioner_availability_timeout_ms", [0], [-1]),
    ("receive_buffer_bytes", [-1, 0], [-2]),
    ("reconnect_backoff_max_ms", [0], [-1]),
    ("request_timeout_ms", [0], [-1, INT_MAX + 1]),
    ("retries", [1, INT_MAX], [-1, INT_MAX + 1]),
    ("retry_backoff_max_ms", [100], [-1]),
    ("retry_backoff_ms", [0], [-1]),
    ("send_buffer_bytes", [-1, 0], [-2]),
    ("socket_connection_setup_timeout_max_ms", [10000], [0]),
    ("socket_connection_setup_timeout_ms", [1], [0]),
    ("transaction_timeout_ms", [1, INT_MAX], [0, INT_MAX + 1]),
    ("client_id", ["", "web", None], [7, b"web", "\udce9"]),
    ("enable_idempotence", [True, False], [1, 0, "true", None]),
    ("partitioner_ignore_keys", [False], [0, "false"]),
    ("compression_type", ["none", "gzip", "snappy", "lz4", "zstd"], ["brotli", "", None, 1]),
    ("client_dns_lookup", ["resolve_canonical_bootstrap_servers_only"], ["default"]),
    ("metadata_recovery_strategy", ["none", "rebootstrap", "same_cluster"], [None, "never"]),
    ("ssl_truststore_type", ["JKS", "PKCS12", "PEM"], ["BCFKS", None]),
    ("ssl_endpoint_identification_algorithm", ["https", ""], [None, "LDAPS"]),
    ("ssl_context", [None], ["TLS", 5, object]),
    ("ssl_enabled_protocols", [("TLSv1.3",)], [None, 5, [1], b"TLSv1.3"]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, good, _ in RANGES for value in good]
)
def test_value_in_range(name: str, value: object) -> None:
    with_tls = {"security_protocol": "SSL"} if name.startswith("ssl_") else {}
    assert getattr(config(**with_tls, **{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, _, bad in RANGES for value in bad]
)
def test_value_out_of_range_or_of_another_type(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}={value!r} (type {type(value).__name__}): expected ")


@pytest.mark.parametrize("name", [n for n, o in OPTIONS.items() if type(o.default) is int])
@pytest.mark.parametrize("value", [True, 5.0, "5", None, [5]])
def test_ints_are_strict(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}=.*: expected an int"):
        config(**{name: value})


@pytest.mark.parametrize(
    ("value", "normalised", "on_the_wire"),
    [
        ("all", "all", -1),
        ("ALL", "all", -1),
        (-1, "all", -1),
        ("-1", "all", -1),
        (1, "1", 1),
        ("1", "1", 1),
        (0, "0", 0),
        ("0", "0", 0),
    ],
)
def test_acks(value: Any, normalised: str, on_the_wire: int) -> None:
    made = config(acks=value)
    assert (made.acks, made.acks_value) == (normalised, on_the_wire)


@pytest.mark.parametrize("value", [2, -2, "2", "some", True, None, 1.0])
def test_acks_refuses(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"^acks=.*expected 'all' \(or -1\), 1 or 0$"):
        config(acks=value)


def test_choices_are_normalised() -> None:
    made = config(compression_type="ZSTD", security_protocol="plaintext")
    assert (made.compression_type, made.security_protocol) == ("zstd", "PLAINTEXT")


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        config(compression_type="x" * 10_000)
    assert len(str(caught.value)) < 300


SECRETS = [
    "proxy_url",  # which may have a login
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
    "sasl_password",
    "sasl_jaas_config",
    "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_assertion_private_key_passphrase",
]


def test_what_kafka_hides_is_secret() -> None:
    assert [name for name, option in OPTIONS.items() if option.kind.secret] == SECRETS


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_typed_as_such_and_not_shown(name: str) -> None:
    option = OPTIONS[name]
    given = "socks5h://gate" if name == "proxy_url" else "M required;"
    made = option.accept(given)
    assert isinstance(made, Secret)
    assert option.accept(made) == made == option.accept_property(given)
    with pytest.raises(ConfigError) as caught:
        option.accept(b"hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ssl_enabled_protocols", "TLSv1.2, TLSv1.3,", ("TLSv1.2", "TLSv1.3")),
        ("ssl_cipher_suites", "", ()),
        ("sasl_login_refresh_window_factor", "0.9", 0.9),
        ("sasl_oauthbearer_extensions", "a=1, b=x=y", (("a", "1"), ("b", "x=y"))),
        ("sasl_oauthbearer_token_provider", " shop.tokens:Azure.token", "shop.tokens:Azure.token"),
        ("ssl_endpoint_identification_algorithm", "", ""),
        ("ssl_keystore_type", "pkcs12", "PKCS12"),
        ("sasl_mechanism", "SCRAM-SHA-512", "SCRAM-SHA-512"),
    ],
)
def test_texts_of_a_properties_file(name: str, text: str, value: object) -> None:
    option = OPTIONS[name]
    made = option.accept_property(text)
    assert made == value
    assert option.accept(made) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl_login_refresh_window_factor", 0.4),
        ("sasl_login_refresh_window_factor", "nan"),
        ("sasl_login_refresh_window_factor", "much"),
        ("sasl_login_refresh_window_jitter", True),
        ("sasl_oauthbearer_extensions", "auth=x"),
        ("sasl_oauthbearer_extensions", "a1=x"),
        ("sasl_oauthbearer_extensions", "a="),
        ("sasl_oauthbearer_extensions", {"a": 1}),
        ("sasl_oauthbearer_extensions", 5),
        ("sasl_oauthbearer_token_provider", "shop.tokens"),
        ("sasl_oauthbearer_token_provider", "1:2"),
        ("sasl_oauthbearer_token_provider", 5),
        ("ssl_context", "TLS"),
        ("sasl_mechanism", "DIGEST-MD5"),
    ],
)
def test_texts_that_are_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=OPTIONS[name].java_name):
        OPTIONS[name].accept_property(value)


def test_a_context_is_known_without_importing_ssl() -> None:
    import ssl

    class Context(ssl.SSLContext):
        pass

    for context in (ssl.create_default_context(), Context(ssl.PROTOCOL_TLS_CLIENT)):
        assert OPTIONS["ssl_context"].accept(context) is context
