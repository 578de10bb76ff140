"""Placeholders: what they are read from, what is never read, and what nobody ever sees."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer import Producer, sync
from aioproducer.admin import Admin
from aioproducer.auth.passwords import PlainLogin
from aioproducer.compat.aiokafka.options import Options as AIOKafkaOptions
from aioproducer.compat.confluent.options import settings_of
from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.login import login_of
from aioproducer.config.properties import (
    BUILT_IN,
    Providers,
    Reference,
    ThisProcess,
    UnresolvedError,
)
from aioproducer.consumer import Consumer
from aioproducer.errors import ConfigError
from aioproducer.failed_records import DeadLetterTopic
from aioproducer.observability.log_handler import KafkaHandler
from aioproducer.reader import Reader
from aioproducer.schema_registry.rest.origins import registry_properties
from aioproducer.testing import MockProducer

PACKAGE = "org.apache.kafka.common.config.provider"
SERVERS = {"bootstrap.servers": "kafka.example:9092"}
PROVIDERS = {
    "config.providers": "env, file,dir",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}


class Desk:
    """Surroundings in memory."""

    variables: ClassVar = {"NAME": "me", "EMPTY": ""}
    files: ClassVar = {
        "/s/a.properties": b"user = alice\npassword = hunter2\n",
        "/s/bad.properties": b"password=hunter2\\u12\n",
        "/s/token": b"\xef\xbb\xbfhunter2\r\n",
        "/s/two": b"a\n\n",
        "/s/binary": b"hunter2\xff",
        "/other/token": b"hunter2",
    }

    def variable(self, name: str) -> str | None:
        return self.variables.get(name)

    def content(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]


def resolve(text: str, providers: Providers = BUILT_IN) -> str:
    reference = Reference.in_value(text, providers)
    assert reference is not None
    return reference.resolve("client_id", Desk()).reveal()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:NAME}", "me"),
        ("a-${env:NAME}-${env:EMPTY}${env:NAME}", "a-me-me"),
        ("${file:/s/a.properties:password}", "hunter2"),
        ("${dir:/s:token}", "hunter2"),
        ("${dir:/s:two}", "a\n"),
        ("${env:NAME} ${vault:secret/a:b} ${} $NAME", "me ${vault:secret/a:b} ${} $NAME"),
    ],
)
def test_what_placeholders_stand_for(text: str, value: str) -> None:
    assert resolve(text) == value


@pytest.mark.parametrize("text", ["me", "${NAME}", "${vault:a}", "$env:NAME", "${env:NAME", ""])
def test_what_is_no_placeholder(text: str) -> None:
    assert Reference.in_value(text, BUILT_IN) is None
    assert Reference.in_value("${env:NAME}", None) is None
    assert Reference.in_value(5, BUILT_IN) is None


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("${env:NOBODY}", UnresolvedError, "environment variable NOBODY, which is not set in this"),
        ("${file:/s/no:k}", UnresolvedError, "refers to /s/no, which cannot be read in this proc"),
        ("${file:/s/a.properties:key}", UnresolvedError, "the key 'key' of /s/a.properties, which"),
        ("${dir:/s:no}", UnresolvedError, "refers to /s/no, which cannot be read"),
        ("${env:a:b}", ConfigError, r"has the form \$\{env:NAME\}"),
        ("${file:/s/token}", ConfigError, r"whole content is \$\{dir:/directory:file\}"),
        ("${dir:/s}", ConfigError, r"has the form \$\{dir:/directory:file\}$"),
        ("${dir:/s:../other/token}", ConfigError, "'../other/token' is not the name of a file"),
        ("${dir:/s:..}", ConfigError, "'..' is not the name of a file in '/s'"),
        ("${dir:/s:binary}", ConfigError, "/s/binary, which is not UTF-8"),
        ("${file:/s/bad.properties:password}", ConfigError, "bad.properties, line 1: malformed"),
    ],
)
def test_what_is_not_there_is_named(text: str, kind: type[ConfigError], message: str) -> None:
    with pytest.raises(kind, match=f"^client_id.*{message}") as caught:
        resolve(f"{text}")
    assert type(caught.value) is kind
    assert_no_secret_in(caught.value)


def assert_no_secret_in(error: BaseException | None) -> None:
    """Neither in the messages nor in the values of the frames, ours and those of the causes."""
    while error is not None:
        assert "hunter2" not in f"{error} {error!r} {error.__dict__}"
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if "/aioproducer/" in frame.f_code.co_filename:
                assert "hunter2" not in repr(frame.f_locals), frame.f_code.co_qualname
        error = error.__cause__ or error.__context__


def restricted(**params: str) -> Providers:
    made = Providers.of(
        {
            **PROVIDERS,
            **{f"config.providers.{name.replace('_', '.', 1)}": v for name, v in params.items()},
        }
    )
    assert made is not None
    return made


@pytest.mark.parametrize("path", ["/s/a.properties", "/s/./a.properties", "/x/../s/a.properties"])
def test_paths_that_are_allowed(path: str) -> None:
    providers = restricted(**{"file_param.allowed.paths": "/x,/s/"})
    assert resolve(f"${{file:{path.replace('/x/..', '')}:user}}", providers) == "alice"


@pytest.mark.parametrize(
    "text", ["${dir:/other:token}", "${dir:/s/../other:token}", "${dir:/stuff:token}"]
)
def test_paths_that_are_not_allowed(text: str) -> None:
    providers = restricted(**{"dir_param.allowed.paths": "/x,/s"})
    assert resolve("${dir:/s:token}", providers) == "hunter2"
    with pytest.raises(ConfigError, match=r"outside allowed\.paths"):
        resolve(text, providers)


def test_variables_that_are_not_allowed() -> None:
    providers = restricted(**{"env_param.allowlist.pattern": "NA.*"})
    assert resolve("${env:NAME}", providers) == "me"
    with pytest.raises(ConfigError, match=r"EMPTY, which allowlist\.pattern .* does not allow"):
        resolve("${env:EMPTY}", providers)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"env_param.allowlist.pattern": "("}, r"^config\.providers\.env\.param\.allowlist\.patt"),
        ({"file_param.allowed.paths": "s"}, "'s' is not an absolute path"),
    ],
)
def test_malformed_restrictions(params: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        restricted(**params)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"config.providers.vault.class": "com.example.Vault"},
            r"config\.providers\.vault\.class='com\.example\.Vault' is a Java class that cannot be",
        ),
        ({}, r"config\.providers\.vault\.class is not set"),
    ],
)
def test_providers_that_can_not_be_had(properties: dict[str, str], message: str) -> None:
    given = {
        **SERVERS,
        **properties,
        "config.providers": "vault",
        "client.id": "${vault:kv/shop:name}",
        "sasl.mechanism": "${env:LITERAL}",
    }
    with pytest.raises(
        ConfigError, match=rf"^client\.id refers to the provider 'vault': {message}"
    ):
        ProducerConfig.from_properties(given)
    made = ProducerConfig.from_properties(given, client_id="me", sasl_mechanism=None)
    assert made.client_id == "me"


def test_a_properties_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_LINGER", "7")
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=hunter2")
    lines = {
        **SERVERS,
        **PROVIDERS,
        "linger.ms": "${env:AIOPRODUCER_TEST_LINGER}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} username="alice" password="${{file:{secrets}:password}}";',
    }
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    made = ProducerConfig.from_properties(path)
    assert made.linger_ms == 7
    assert login_of(made) == PlainLogin("alice", Secret("hunter2"))
    assert made.plain_secrets() == ()
    shown = repr(made)
    assert "linger_ms='${env:AIOPRODUCER_TEST_LINGER}'" in shown
    assert f"sasl_jaas_config='********${{file:{secrets}:password}}********'" in shown


def test_without_providers_java_reads_no_placeholder(caplog: pytest.LogCaptureFixture) -> None:
    properties = {**SERVERS, "client.id": "${env:NAME}"}
    made = ProducerConfig.from_properties(properties)
    assert made.client_id == "${env:NAME}"
    assert "client.id is used literally" in caplog.text
    assert pickle.loads(pickle.dumps(made)).client_id == "${env:NAME}"
    assert made.replace(linger_ms=1).client_id == "${env:NAME}"


def test_keywords(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_PASSWORD", "hunter2")
    monkeypatch.setenv("AIOPRODUCER_TEST_SIZE", " 99 ")
    (tmp_path / "name").write_text("alice\n")
    options: dict[str, Any] = {
        "bootstrap_servers": "kafka.example:9092",
        **LOGIN,
        "sasl_username": f"${{dir:{tmp_path}:name}}",
        "sasl_password": "${env:AIOPRODUCER_TEST_PASSWORD}",
        "batch_size": "${env:AIOPRODUCER_TEST_SIZE}",
    }
    made = ProducerConfig(**options)
    assert login_of(made) == PlainLogin("alice", Secret("hunter2"))
    assert made.batch_size == 99
    assert made.plain_secrets() == ()
    assert "sasl_password='${env:AIOPRODUCER_TEST_PASSWORD}'" in repr(made)
    assert "hunter2" not in f"{made} {dataclasses.asdict(made)}"
    again = ProducerConfig.from_properties(SERVERS, **options)
    assert (again, again.references) == (made, made.references)


def test_a_pickle_has_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_PASSWORD", "hunter2")
    made = ProducerConfig(
        bootstrap_servers="a:1",
        **LOGIN,  # type: ignore[arg-type]
        sasl_password="${env:AIOPRODUCER_TEST_PASSWORD}",
    )
    pickled = pickle.dumps(made)
    assert b"hunter2" not in pickled
    for twin in (pickle.loads(pickled), copy.deepcopy(made), made.replace(linger_ms=None)):
        assert twin == made
        assert twin.references == made.references
    monkeypatch.setenv("AIOPRODUCER_TEST_PASSWORD", "of the executor")
    assert pickle.loads(pickled).sasl_password == Secret("of the executor")
    monkeypatch.delenv("AIOPRODUCER_TEST_PASSWORD")
    with pytest.raises(UnresolvedError, match=r"^sasl_password refers to the environment variable"):
        pickle.loads(pickled)


def test_placeholders_of_logins_are_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("PASSWORD", "KEY_PASSWORD", "ID"):
        monkeypatch.setenv(f"AIOPRODUCER_TEST_{name}", "old")
    made = ProducerConfig(
        bootstrap_servers="a:1",
        delivery_timeout_ms=40_000,
        client_id="${env:AIOPRODUCER_TEST_ID}",
        ssl_keystore_location="/etc/keystore.pem",
        ssl_key_password="${env:AIOPRODUCER_TEST_KEY_PASSWORD}",
        **LOGIN,  # type: ignore[arg-type]
        sasl_jaas_config=f'{PLAIN} username="alice" password="${{env:AIOPRODUCER_TEST_PASSWORD}}";',
    )
    assert made.reread() is made
    for name in ("PASSWORD", "KEY_PASSWORD", "ID"):
        monkeypatch.setenv(f"AIOPRODUCER_TEST_{name}", "new")
    caplog.clear()
    again = made.reread()
    assert login_of(again) == PlainLogin("alice", Secret("new"))
    assert again.ssl_key_password == Secret("new")
    assert again.client_id == "old", "it is no secret"
    assert (again.references, again.given) == (made.references, made.given)
    assert login_of(made) == PlainLogin("alice", Secret("old"))
    assert not caplog.records, "the warnings about a configuration come once"
    assert pickle.loads(pickle.dumps(again)).client_id == "new"
    assert b"${env" in pickle.dumps(again)
    monkeypatch.delenv("AIOPRODUCER_TEST_PASSWORD")
    with pytest.raises(UnresolvedError, match="AIOPRODUCER_TEST_PASSWORD, which is not set"):
        made.reread()


def test_a_plain_value_takes_the_place_of_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_NAME", "me")
    made = ProducerConfig(bootstrap_servers="a:1", client_id="${env:AIOPRODUCER_TEST_NAME}")
    assert made.replace(client_id="you").references == {}
    assert ProducerConfig(bootstrap_servers="a:1", client_id="me") == made


@pytest.mark.parametrize(
    ("options", "secrets"),
    [
        ({"sasl_password": "hunter2"}, ("sasl_password",)),
        ({"sasl_password": Secret("hunter2")}, ("sasl_password",)),
        ({"sasl_password": "${env:P}"}, ()),
        ({"sasl_password": "hunter2", "ssl_truststore_location": "/ca.p12",
          "ssl_truststore_password": "x"},
         ("ssl_truststore_password", "sasl_password")),
        ({"sasl_jaas_config": f'{PLAIN} username="alice" password="hunter2";'},
         ("sasl_jaas_config",)),
        ({"sasl_jaas_config": f'{PLAIN} username="alice" password="${{env:P}}";'}, ()),
        ({"sasl_jaas_config": f'{PLAIN} username="${{env:U}}" password="hunter2";'},
         ("sasl_jaas_config",)),
        ({"sasl_jaas_config": f"{PLAIN} username=${{env:U}} password=hunter2;"},
         ("sasl_jaas_config",)),
        ({"sasl_jaas_config": f"{PLAIN} username=${{env:U}} password=${{env:P}};"}, ()),
        ({"sasl_jaas_config": " ${env:LINE} "}, ()),
        ({"sasl_jaas_config": f'{PLAIN} username="alice" password="a${{env:P}}b";'}, ()),
        ({"sasl_password": "${env:P}", "ssl_truststore_type": "PEM",
          "ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----"}, ()),
    ],
)  # fmt: skip
def test_plain_secrets(
    options: dict[str, Any], secrets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P", "hunter3")
    monkeypatch.setenv("U", "alice")
    monkeypatch.setenv("LINE", f"{PLAIN} username=alice password=hunter3;")
    login = LOGIN if "sasl_password" in options else {**LOGIN, "sasl_username": None}
    made = ProducerConfig(**{"bootstrap_servers": "a:1", **login, **options})
    assert made.plain_secrets() == secrets
    assert (b"hunter2" in pickle.dumps(made)) == bool(secrets)
    assert b"hunter3" not in pickle.dumps(made)


def test_an_aws_line_without_keys_is_no_secret() -> None:
    made = ProducerConfig(
        bootstrap_servers="a:1",
        security_protocol="SASL_SSL",
        sasl_mechanism="AWS_MSK_IAM",
        sasl_jaas_config='software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="s";',
    )
    assert made.plain_secrets() == ()


def from_keywords(options: dict[str, Any]) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "a:1", **options})


def from_properties(options: dict[str, Any]) -> ProducerConfig:
    properties = {name.replace("_", "."): value for name, value in options.items()}
    return ProducerConfig.from_properties({**SERVERS, **PROVIDERS, **properties})


def replaced(options: dict[str, Any]) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="a:1").replace(**options)


def asyncio_producer(options: dict[str, Any]) -> ProducerConfig:
    return Producer(**{"bootstrap_servers": "a:1", **options}).config


def blocking_producer(options: dict[str, Any]) -> ProducerConfig:
    return sync.Producer(**{"bootstrap_servers": "a:1", **options}).config


def as_other_clients_take_it(options: dict[str, Any]) -> ProducerConfig:
    return Producer(cast(Any, options)).config


def as_other_blocking_clients_take_it(options: dict[str, Any]) -> ProducerConfig:
    return sync.Producer(cast(Any, options)).config


MAKERS = [
    from_keywords,
    from_properties,
    replaced,
    asyncio_producer,
    blocking_producer,
    as_other_clients_take_it,
    as_other_blocking_clients_take_it,
]


@pytest.mark.parametrize("value", [b"hunter2", ["hunter2"], 7])
def test_the_type_of_a_wrong_secret_is_told(value: object) -> None:
    with pytest.raises(ConfigError, match=f"value of type {type(value).__name__} is hidden"):
        from_keywords({"sasl_password": value})


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "options",
    [
        {"linger_ms": "${env:AIOPRODUCER_TEST_SECRET}"},
        {"acks": "x${env:AIOPRODUCER_TEST_SECRET}"},
        {"client_dns_lookup": "${env:AIOPRODUCER_TEST_SECRET}"},
        {"bootstrap_servers": "${env:AIOPRODUCER_TEST_SECRET}"},
        {"sasl_jaas_config": "${env:AIOPRODUCER_TEST_SECRET}"},
        {"sasl_jaas_config": "hunter2"},
        {"sasl_password": "hunter2"},
        {"sasl_password": "hunter2", "linger_ms": "-1"},
        {"sasl_password": "hunter2", "no_such_option": "1"},
        {"sasl_password": "hunter2${env:AIOPRODUCER_NOT_SET}"},
        {"sasl_plain_password": "hunter2"},
        {"sasl_plain_password": b"hunter2"},
        {"sasl_pasword": "hunter2"},
        {"ssl_password": "hunter2"},
        {"sasl.password": "hunter2"},
        {"sasl_password": b"hunter2"},
        {"sasl_password": ["hunter2"]},
        {"sasl_jaas_config": {"password": "hunter2"}},
        {"sasl_oauthbearer_token_provider": "eyJhbGciOiJub25lIn0.hunter2."},
        {"sasl_oauthbearer_token_provider": b"hunter2"},
    ],
)
def test_no_frame_of_an_error_has_a_secret(
    options: dict[str, Any],
    make: Callable[[dict[str, Any]], ProducerConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter2")
    with pytest.raises(ConfigError) as caught:
        make(options)
    assert_no_secret_in(caught.value)


# --- a text is expanded once ----------------------------------------------------------------------


SECRET_FILE = "/s/a.properties"
DESK: ContextVar[dict[str, str]] = ContextVar("DESK")
"""The environment of an example."""
READ: ContextVar[list[str]] = ContextVar("READ")
"""What an example reads."""


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment and files are an example's own, and reading them is recorded."""

    def variable(self: object, name: str) -> str | None:
        if name in DESK.get():
            READ.get().append(name)
        return DESK.get().get(name)

    def content(self: object, path: str) -> bytes:
        READ.get().append(path)
        return Desk.files[path] if path in Desk.files else Path(path).read_bytes()

    monkeypatch.setattr(ThisProcess, "variable", variable)
    monkeypatch.setattr(ThisProcess, "content", content)


def by_values(config: ProducerConfig) -> ProducerConfig:
    return ProducerConfig(**{name: getattr(config, name) for name in config.given})


def by_a_dead_letter_topic(config: ProducerConfig, **options: Any) -> ProducerConfig:
    own = cast("Any", DeadLetterTopic("failed", **options).handler_for(config))._own
    assert own.client_id == f"{config.client_id}-dead-letters" or "client_id" in options
    return cast("ProducerConfig", own.replace(client_id=config.client_id))


def by_confluent(config: ProducerConfig) -> ProducerConfig:
    return settings_of({"bootstrap.servers": "a:1", "client.id": config.client_id}).config


def by_confluents_options(config: ProducerConfig) -> ProducerConfig:
    assert config.sasl_password is not None
    return ProducerConfig.from_librdkafka(
        {
            "bootstrap.servers": "a:1",
            "client.id": config.client_id,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": config.sasl_password.reveal(),
        }
    )


def by_aiokafka(config: ProducerConfig) -> ProducerConfig:
    assert config.sasl_password is not None
    return AIOKafkaOptions(
        bootstrap_servers="a:1",
        client_id=config.client_id,
        security_protocol="SASL_PLAINTEXT",
        sasl_plain_username="alice",
        sasl_plain_password=config.sasl_password.reveal(),
    ).config()


COPIES: dict[str, Callable[[ProducerConfig], ProducerConfig]] = {
    "another option": lambda config: config.replace(linger_ms=3),
    "the value itself": lambda config: config.replace(
        client_id=config.client_id, sasl_password=config.sasl_password
    ),
    "a text made of it": lambda config: config.replace(client_id=f"{config.client_id}"),
    "copy.replace()": lambda config: config.__replace__(client_id="".join(str(config.client_id))),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda config: cast("ProducerConfig", pickle.loads(pickle.dumps(config))),
    "reread": ProducerConfig.reread,
    "a pickle of the reread one": lambda config: copy.deepcopy(config.reread()),
    "its values": by_values,
    "dataclasses": lambda config: ProducerConfig(
        **{name: dataclasses.asdict(config)[name] for name in config.given}
    ),
    "Producer": lambda config: Producer(config).config,
    "Producer, with keywords": lambda config: Producer(config, linger_ms=1).config,
    "Producer, with its value": lambda config: Producer(config, client_id=config.client_id).config,
    "blocking Producer": lambda config: sync.Producer(config).config,
    "blocking Producer, with keywords": lambda config: sync.Producer(config, acks=1).config,
    "MockProducer": lambda config: MockProducer(config).config,
    "Reader": lambda config: Reader("t", config, max_block_ms=9).config,
    "Consumer": lambda config: Consumer("t", group_id="g", config=config, max_block_ms=9).config,
    "Admin": lambda config: Admin(config, max_block_ms=9).config,
    "dead letters": by_a_dead_letter_topic,
    "dead letters, with keywords": lambda config: by_a_dead_letter_topic(config, linger_ms=1),
    "dead letters of another cluster": lambda config: by_a_dead_letter_topic(
        config, bootstrap_servers="b:1", client_id=config.client_id
    ),
    "log handler": lambda config: cast(
        "ProducerConfig",
        KafkaHandler("logs", bootstrap_servers="a:1", client_id=config.client_id)._config,
    ),
    "confluent": by_confluent,
    "options of librdkafka": by_confluents_options,
    "aiokafka": by_aiokafka,
}
FRAGMENTS = st.sampled_from(
    [
        "${env:B}",
        f"${{file:{SECRET_FILE}:password}}",
        "${dir:/s:token}",
        "${",
        "}",
        "a",
        "$",
        "env:B",
    ]
)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("way", COPIES)
def test_a_resolved_text_is_a_literal_in_every_copy(way: str) -> None:
    text = f"a${{file:{SECRET_FILE}:password}}${{env:B}}"
    check_copies(text, [way])


@pytest.mark.usefixtures("watched")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    text=st.lists(FRAGMENTS, min_size=1, max_size=4).map("".join),
    ways=st.lists(st.sampled_from(sorted(COPIES)), min_size=2, max_size=4),
)
def test_and_in_copies_of_copies(text: str, ways: list[str]) -> None:
    check_copies(text, ways)


def check_copies(text: str, ways: list[str]) -> None:
    DESK.set({"A": text, "B": "hunter2"})
    READ.set([])
    login: dict[str, Any] = {**LOGIN, "sasl_password": "${env:A}"}
    config = ProducerConfig(bootstrap_servers="a:1", client_id="${env:A}", **login)
    for way in ways:
        config = COPIES[way](config)
        assert (config.client_id, way) == (text, way)
        if config.sasl_password is None:  # a copy that has no login
            config = config.replace(**{**login, "sasl_password": Secret(text)})
        assert config.sasl_password == Secret(text)
    assert set(READ.get()) == {"A"}, "nothing but what the user named was read"


@pytest.mark.usefixtures("watched")
def test_the_keywords_beside_a_configuration_are_a_users_own() -> None:
    DESK.set({"A": "me"})
    READ.set([])
    config = ProducerConfig(bootstrap_servers="a:1")
    assert Producer(config, client_id="${env:A}").config.client_id == "me"
    assert MockProducer(config, client_id="${env:A}").config.client_id == "me"
    assert Reader("t", config, client_id="${env:A}").config.client_id == "me"
    topic = DeadLetterTopic("failed", client_id="${env:A}")
    assert cast("Any", topic.handler_for(config))._own.client_id == "me"


@pytest.mark.usefixtures("watched")
def test_a_copy_resolves_no_placeholder_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    DESK.set({"A": "me"})
    READ.set([])
    made = ProducerConfig(bootstrap_servers="a:1").replace(client_id="${env:A}")
    assert (made.client_id, READ.get()) == ("${env:A}", [])
    assert "client_id is used literally: ProducerConfig.replace() resolves no" in caplog.text
    login: dict[str, Any] = {**LOGIN, "sasl_password": "${env:A}"}
    made.replace(**login)
    assert "sasl_password is used literally: ProducerConfig.replace() resolves no" in caplog.text


@pytest.mark.usefixtures("watched")
def test_other_libraries_options_have_no_placeholders() -> None:
    DESK.set({"A": "me"})
    READ.set([])
    literal = "${env:A}"
    taken = AIOKafkaOptions(
        client_id=literal, sasl_plain_username=literal, sasl_plain_password=literal,
        security_protocol="SASL_PLAINTEXT",
    ).config()  # fmt: skip
    assert (taken.client_id, taken.sasl_username) == (literal, literal)
    assert taken.sasl_password == Secret(literal)
    given = {"client.id": literal, "transactional.id": literal, "ssl.key.password": literal}
    secured = {"security.protocol": "ssl", "ssl.keystore.location": "/key.p12"}
    config = settings_of({**given, **secured}).config
    assert (config.client_id, config.transactional_id) == (literal, literal)
    assert config.ssl_key_password == Secret(literal)
    assert READ.get() == []


# --- the providers that a process allows ----------------------------------------------------------


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("allowed", "kinds"),
    [
        (None, {"env", "file", "dir"}),
        ("none", set()),
        ("", set()),
        ("env", {"env"}),
        (f" {PACKAGE}.FileConfigProvider , {PACKAGE}.EnvVarConfigProvider", {"env", "file"}),
        (f"{PACKAGE}.DirectoryConfigProvider", {"dir"}),
        ("io.strimzi.kafka.EnvVarConfigProvider", {"env"}),
        ("files,com.example.Vault", set()),
    ],
)
def test_the_environment_limits_the_providers(allowed: str | None, kinds: set[str]) -> None:
    switch = {} if allowed is None else {"AIOPRODUCER_AUTOMATIC_CONFIG_PROVIDERS": allowed}
    DESK.set({"A": "hunter2", **switch})
    texts = {
        "env": "${env:A}",
        "file": f"${{file:{SECRET_FILE}:password}}",
        "dir": "${dir:/s:token}",
    }
    makers: list[Callable[[str], Any]] = [
        lambda text: ProducerConfig(bootstrap_servers="a:1", client_id=text),
        lambda text: ProducerConfig.from_properties({**SERVERS, **PROVIDERS, "client.id": text}),
        lambda text: registry_properties(
            {"schema.registry.url": Secret("http://a"), "bearer.auth.token": Secret(text)}
        ),
    ]
    for kind, text in texts.items():
        for make in makers:
            READ.set([])
            if kind in kinds:
                assert getattr(make(text), "client_id", "hunter2") == "hunter2"
            else:
                with pytest.raises(ConfigError, match=f"{kind!r}, which the environment variable "):
                    make(text)
                assert set(READ.get()) <= switch.keys()


@pytest.mark.usefixtures("watched")
def test_a_file_that_an_option_names_is_no_placeholder(tmp_path: Path) -> None:
    DESK.set({"AIOPRODUCER_AUTOMATIC_CONFIG_PROVIDERS": "none"})
    READ.set([])
    (tmp_path / "key.pem").write_text("hunter2")
    config = ProducerConfig.from_librdkafka(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "ssl",
            "ssl.key.location": str(tmp_path / "key.pem"),
            "ssl.certificate.pem": "x",
        }
    )
    assert config.ssl_keystore_key == Secret("hunter2")
