"""Secrets, and secrets in options that are none: no error, ``repr`` or log line shows them."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

import aioproducer
from aioproducer import Producer, sync
from aioproducer.admin import Admin
from aioproducer.auth.jaas import parse_jaas
from aioproducer.auth.tls import TlsContexts
from aioproducer.compat import confluent
from aioproducer.compat.aiokafka import AIOKafkaProducer
from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.login import login_of, mechanism_of, tls_of
from aioproducer.consumer import Consumer
from aioproducer.errors import ConfigError
from aioproducer.failed_records import DeadLetterTopic
from aioproducer.observability.log_handler import KafkaHandler
from aioproducer.reader import Reader
from aioproducer.schema_registry import SchemaRegistry
from aioproducer.testing import MockProducer, SyncMockProducer

SECRET = Secret("hunter2")


def test_no_way_of_showing_it_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%s %r", SECRET, SECRET)
    shown = [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>40}",
        f"{SECRET:>40}",
        caplog.text,
    ]
    assert "hunter2" not in repr(([SECRET], {"a": SECRET}, shown))
    assert str(Secret("")) == str(SECRET)


def test_it_is_not_a_str() -> None:
    with pytest.raises(TypeError):
        json.dumps(SECRET)
    with pytest.raises(TypeError):
        "".join([SECRET])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        "a" + SECRET  # type: ignore[operator]


def test_value() -> None:
    assert SECRET.reveal() == "hunter2"
    assert Secret("hunter2") == SECRET
    assert Secret("other") != SECRET
    assert SECRET != "hunter2"
    assert len({SECRET, Secret("hunter2")}) == 1
    assert pickle.loads(pickle.dumps(SECRET)) == copy.deepcopy(SECRET) == SECRET
    assert b"aioproducer.config" in pickle.dumps(SECRET), "the public name, which stays"


def test_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        SECRET._text = "x"


def secured(mechanism: str, **options: Any) -> ProducerConfig:
    made = {"bootstrap_servers": "kafka.example:9093", "security_protocol": "SASL_SSL", **options}
    return ProducerConfig(**made, sasl_mechanism=mechanism)  # type: ignore[arg-type]


def oauth(name: str) -> str:
    return f"sasl_oauthbearer_{name}"


@pytest.mark.parametrize("token", ["eyJhbGciOiJub25lIn0.hunter2.x", b"hunter2", ["hunter2"]])
def test_a_token_in_the_provider_s_place_is_not_shown(token: Any) -> None:
    wanted = rf"'package.module:function', or None; the value of type {type(token).__name__} is hid"
    with pytest.raises(ConfigError, match=wanted) as raised:
        secured("OAUTHBEARER", **{oauth("token_provider"): token})
    assert "hunter2" not in str(raised.value)


CREDENTIALS = {
    oauth("client_credentials_client_id"): "shop",
    oauth("client_credentials_client_secret"): "s",
}


@pytest.mark.parametrize(
    "url",
    [
        "https://user:hunter2@login.example/token",
        "https://hunter2@login.example/token",
        "HTTPS://:hunter2@login.example",
        "user:hunter2@login.example/token",
        "file://user:hunter2@/run/token",
        b"https://user:hunter2@login.example/token",
    ],
)
def test_an_endpoint_with_a_password_in_its_url_is_refused(url: Any) -> None:
    wanted = r"token_endpoint_url: expected a URL without user name and password .*is hidden"
    with pytest.raises(ConfigError, match=wanted) as raised:
        secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert "hunter2" not in str(raised.value)


def test_so_is_one_behind_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter2")
    url = "https://user:${env:AIOPRODUCER_TEST_SECRET}@login.example/token"
    with pytest.raises(ConfigError, match="is not a URL without user name and password") as raised:
        secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("url", ["https://login.example/a@b", "https://login.example?mail=a@b"])
def test_elsewhere_in_a_url_the_sign_of_a_user_is_none(url: str) -> None:
    config = secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert config.sasl_oauthbearer_token_endpoint_url == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://login.example/token?api_key=hunter2", "https://login.example/token?********"),
        ("https://login.example/token#hunter2\nhunter2", "https://login.example/token#********"),
        ("https://login.example/token", "https://login.example/token"),
        (
            "https://login.example/${env:AIOPRODUCER_TEST_SECRET}?key=hunter2",
            "https://login.example/${env:AIOPRODUCER_TEST_SECRET}?********",
        ),
    ],
)
def test_the_query_of_an_endpoint_is_used_and_not_shown(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter3")
    config = secured("OAUTHBEARER", **CREDENTIALS, **{oauth("token_endpoint_url"): url})
    assert f"{oauth('token_endpoint_url')}={shown!r}" in repr(config)
    assert "hunter" not in repr(config) + repr(login_of(config))
    used = config.sasl_oauthbearer_token_endpoint_url
    assert used == url.replace("${env:AIOPRODUCER_TEST_SECRET}", "hunter3")


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    "password",
    [
        "${ENV:hunter2}",
        "${vault:hunter2:b}",
        "${HUNTER2}",
        "x${hunter2}x",
        "$HUNTER2",
        "$(cat hunter2)",
        "%HUNTER2%",
        "{{ hunter2 }}",
    ],
)
@pytest.mark.parametrize("by_line", [False, True])
def test_a_placeholder_that_nobody_reads_is_warned_of(
    password: str, by_line: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if by_line:
        line = f'{JAAS} username="alice" password="{password}";'
        secured("PLAIN", sasl_jaas_config=line)
    else:
        secured("PLAIN", sasl_username="alice", sasl_password=password)
    (warning,) = warnings(caplog)
    name = "password of sasl_jaas_config" if by_line else "sasl_password"
    assert warning.startswith(f"{name} looks like a placeholder")
    assert "hunter2" not in warning.lower()


@pytest.mark.parametrize("password", ["hunter2\n", " hunter2", "hunter2\r\n", "\thunter2"])
def test_white_space_around_a_password_is_warned_of(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured("PLAIN", sasl_username="alice", sasl_password=password)
    (warning,) = warnings(caplog)
    assert warning.startswith("sasl_password begins or ends with whitespace")
    assert "hunter2" not in warning


def test_so_is_the_white_space_that_a_placeholder_brings(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOPRODUCER_TEST_SECRET", "hunter2\n")
    secured("PLAIN", sasl_username="a", sasl_password="${env:AIOPRODUCER_TEST_SECRET}")
    (warning,) = warnings(caplog)
    assert "whitespace" in warning


@pytest.mark.parametrize(
    "password", ["hunter2", "hun ter2", "$ecret", "pa$$word", "a$B", "100%", "{hunter2}", "$", ""]
)
def test_an_ordinary_password_is_not_warned_of(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    secured("PLAIN", sasl_username="alice", sasl_password=password)
    assert not warnings(caplog)


def test_a_placeholder_that_is_read_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    secured("PLAIN", sasl_username="alice", sasl_password=f"${{dir:{tmp_path}:password}}")
    assert not warnings(caplog)


def test_a_property_s_placeholder_without_provider_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    properties = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.keystore.location": "/key.pem",
        "ssl.key.password": "${env:NAME}",
    }
    ProducerConfig.from_properties(properties)
    (warning,) = warnings(caplog)
    assert warning.startswith("ssl_key_password looks like a placeholder")
    assert "config.providers" in warning


# --- no frame of an error has a secret ------------------------------------------------------------

PASSWORD = "hunter2"
OUR_SECRETS: dict[str, Any] = {
    "sasl_password": PASSWORD,
    "sasl_jaas_config": f'{JAAS} username="alice" password="{PASSWORD}";',
    "ssl_keystore_password": PASSWORD,
    "ssl_key_password": PASSWORD,
    "ssl_keystore_key": PASSWORD,
    "ssl_truststore_password": PASSWORD,
    "proxy_url": f"socks5h://alice:{PASSWORD}@proxy.example:1080",
    "sasl_oauthbearer_client_credentials_client_secret": PASSWORD,
}
WRONG: list[dict[str, Any]] = [
    {"no_such_option": PASSWORD},
    {"sasl.password": PASSWORD},
    {"password": PASSWORD},
    {"bootstrap_servers": 5},
    {"bootstrap_servers": "a:x"},
    {"client_id": b"a"},
    {"security_protocol": "TLS"},
    {"request_timeout_ms": "7"},
    {"sasl_jaas_config": f'{JAAS} username="alice password="{PASSWORD}";'},
    {"sasl_jaas_config": f"{JAAS} username=alice {PASSWORD} password=x;"},
    {"sasl_jaas_config": f"{PASSWORD}"},
    {"sasl_jaas_config": f'{PASSWORD} required password="x";'},
    {"proxy_url": f"http://{PASSWORD}:x@"},
    {"proxy_url": f"http://alice:{PASSWORD}"},
    {"proxy_url": f"http://alice:{PASSWORD}@proxy.example:{PASSWORD}"},
    {"proxy_url": f"socks5://:{PASSWORD}@proxy.example"},
    {"proxy_url": f"socks5://{PASSWORD}%ff@proxy.example"},
    {"proxy_url": f"socks5://alice:{PASSWORD * 90}@proxy.example"},
    {"proxy_url": f"alice:{PASSWORD}@proxy.example:1080"},
    {"proxy_url": f"http://alice:{PASSWORD}@[::x]:1"},
    {"sasl_password": PASSWORD.encode()},
    {"ssl_keystore_key": [PASSWORD]},
    {"sasl_oauthbearer_token_provider": PASSWORD},
    {"sasl_oauthbearer_token_endpoint_url": f"https://alice:{PASSWORD}@login.example"},
    {"sasl_credentials_provider": f"{PASSWORD}@x"},
    {},
]
"""Options with one that is wrong, beside secrets; the secrets contradict each other as well."""


def java(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}


def a_file(options: dict[str, Any]) -> str:
    path = Path("client.properties")  # in the folder of the test
    path.write_text("".join(f"{name}={value}\n" for name, value in java(options).items()))
    return str(path)


def a_damaged_file(options: dict[str, Any]) -> str:
    path = a_file(options)
    Path(path).write_text(f"{Path(path).read_text()}x=\\u{PASSWORD}\n")
    return path


def librdkafka(options: dict[str, Any]) -> dict[str, Any]:
    names = {
        "sasl.jaas.config": "sasl.password",
        "ssl.keystore.key": "ssl.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    }
    return {
        names.get(name, name): value
        for name, value in java(options).items()
        if name not in ("ssl.truststore.password", "proxy.url")
    }


def aiokafka(options: dict[str, Any]) -> dict[str, Any]:
    return {
        ("sasl_plain_password" if name == "sasl_password" else name): value
        for name, value in options.items()
        if name not in OUR_SECRETS or name in ("sasl_password",)
    }


def registry(given: dict[str, Any]) -> dict[str, Any]:
    return {
        **java(given),
        "schema.registry.url": f"https://alice:{PASSWORD}@registry.example",
        "schema.registry.ssl.keystore.password": PASSWORD,
        "bearer.auth.token": PASSWORD,
    }


async def in_a_loop(make: Callable[[], object]) -> None:
    make()


KEYSTORE = ProducerConfig(
    bootstrap_servers="a:1",
    security_protocol="SSL",
    ssl_keystore_type="PEM",
    ssl_keystore_key=PASSWORD,
    ssl_keystore_certificate_chain="x",
    ssl_key_password=PASSWORD,
)
CREDENTIALS_THAT_FAIL = {
    oauth("client_credentials_client_id"): "shop",
    oauth("client_credentials_client_secret"): f"{PASSWORD}\n",
}
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
A_CONFIG = ProducerConfig(bootstrap_servers="a:1")


untyped: Any = SimpleNamespace(
    Admin=Admin,
    AIOKafkaProducer=AIOKafkaProducer,
    Consumer=Consumer,
    DeadLetterTopic=DeadLetterTopic,
    KafkaHandler=KafkaHandler,
    MockProducer=MockProducer,
    Producer=Producer,
    ProducerConfig=ProducerConfig,
    Reader=Reader,
    SchemaRegistry=SchemaRegistry,
    confluent=confluent,
    sync=sync,
)

CONSTRUCTORS: dict[str, Callable[[dict[str, Any]], object]] = {
    "ProducerConfig": lambda given: untyped.ProducerConfig(**given),
    "ProducerConfig of a mapping": lambda given: untyped.ProducerConfig(given),
    "ProducerConfig.replace": lambda given: untyped.ProducerConfig(bootstrap_servers="a:1").replace(
        **given
    ),
    "ProducerConfig.from_properties": lambda given: ProducerConfig.from_properties(java(given)),
    "ProducerConfig.from_properties of a file": lambda given: ProducerConfig.from_properties(
        a_file(given)
    ),
    "ProducerConfig.from_properties of a damaged file": lambda given: (
        ProducerConfig.from_properties(a_damaged_file(given))
    ),
    "ProducerConfig.from_librdkafka": lambda given: ProducerConfig.from_librdkafka(
        librdkafka(given)
    ),
    "from_librdkafka with keywords": lambda given: ProducerConfig.from_librdkafka({}, **given),
    "Producer": lambda given: untyped.Producer(**given),
    "Producer of a mapping": lambda given: untyped.Producer(given, acks="7"),
    "blocking Producer": lambda given: untyped.sync.Producer(**given),
    "blocking Producer of a mapping": lambda given: untyped.sync.Producer(given),
    "MockProducer": lambda given: untyped.MockProducer(**given),
    "MockProducer of a mapping": lambda given: untyped.MockProducer(given),
    "SyncMockProducer": lambda given: SyncMockProducer(**given),
    "Reader": lambda given: untyped.Reader("t", **given),
    "Reader with its own option": lambda given: untyped.Reader("t", fetch_max_bytes="x", **given),
    "Reader of a mapping": lambda given: untyped.Reader(None, given, end=[]),
    "Consumer": lambda given: untyped.Consumer("t", group_id="g", **given),
    "Consumer with its own option": lambda given: untyped.Consumer(
        "t",
        group_id="g",
        session_timeout_ms="x",
        **given,
    ),
    "Consumer of a mapping": lambda given: untyped.Consumer(5, group_id=b"g", config=given),
    "Consumer.from_properties": lambda given: Consumer.from_properties(
        {**java(given), "group.id": "g"}, "t"
    ),
    "Consumer.from_properties of a damaged file": lambda given: Consumer.from_properties(
        a_damaged_file(given), "t"
    ),
    "Consumer.from_properties with keywords": lambda given: Consumer.from_properties(
        {"group.id": "g"}, "t", **given
    ),
    "Admin": lambda given: untyped.Admin(**given),
    "Admin of a mapping": lambda given: untyped.Admin(given),
    "DeadLetterTopic": lambda given: untyped.DeadLetterTopic("t", **given).handler_for(A_CONFIG),
    "DeadLetterTopic with a wrong topic": lambda given: untyped.DeadLetterTopic("t/", **given),
    "KafkaHandler": lambda given: untyped.KafkaHandler("t", **given),
    "KafkaHandler with a wrong capacity": lambda given: untyped.KafkaHandler(
        "t", capacity=0, **given
    ),
    "confluent Producer": lambda given: untyped.confluent.Producer(librdkafka(given)),
    "confluent Producer with keywords": lambda given: untyped.confluent.Producer(
        {"stats_cb": 5}, **librdkafka(given)
    ),
    "confluent Producer with no configuration": lambda given: untyped.confluent.Producer(
        librdkafka(given), {}
    ),
    "confluent Producer with default.topic.config": lambda given: untyped.confluent.Producer(
        {"default.topic.config": librdkafka(given)}
    ),
    "confluent SerializingProducer": lambda given: untyped.confluent.SerializingProducer(
        {**librdkafka(given), "key.serializer": 5}
    ),
    "confluent AIOProducer": lambda given: untyped.confluent.AIOProducer(librdkafka(given)),
    "confluent AIOProducer in a loop": lambda given: asyncio.run(
        in_a_loop(lambda: confluent.AIOProducer(librdkafka(given), 5))
    ),
    "confluent set_sasl_credentials": lambda given: untyped.confluent.Producer(
        {}
    ).set_sasl_credentials(
        5,
        PASSWORD,
    ),
    "confluent set_sasl_credentials of bytes": lambda given: untyped.confluent.Producer(
        {}
    ).set_sasl_credentials("alice", PASSWORD.encode()),
    "AIOKafkaProducer": lambda given: untyped.AIOKafkaProducer(**given),
    "AIOKafkaProducer of SASL": lambda given: untyped.AIOKafkaProducer(
        **{
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            **aiokafka(given),
            "linger_ms": "x",
        }
    ),
    "SchemaRegistry": lambda given: untyped.SchemaRegistry(
        f"https://alice:{PASSWORD}@registry.example:x",
        password=PASSWORD,
        headers={"Authorization": PASSWORD},
    ),
    "SchemaRegistry with two logins": lambda given: untyped.SchemaRegistry(
        f"https://alice:{PASSWORD}@registry.example", username="alice", password=PASSWORD
    ),
    "SchemaRegistry with a wrong header": lambda given: untyped.SchemaRegistry(
        "https://registry.example", headers={"a": f"{PASSWORD}\n"}, bearer_token=f"{PASSWORD}\n"
    ),
    "SchemaRegistry with a wrong password": lambda given: untyped.SchemaRegistry(
        "https://registry.example",
        password=[PASSWORD],
        username="alice",
        headers=PASSWORD,
    ),
    "SchemaRegistry with bytes": lambda given: untyped.SchemaRegistry(
        "https://registry.example",
        password=PASSWORD.encode(),
        latest_ttl=-1,
    ),
    "SchemaRegistry with a lone surrogate": lambda given: untyped.SchemaRegistry(
        "https://registry.example", username="alice", password=f"{PASSWORD}\udc80"
    ),
    "SchemaRegistry.from_properties": lambda given: SchemaRegistry.from_properties(
        {**registry(given), "schema.registry.no.such.option": PASSWORD}
    ),
    "SchemaRegistry.from_properties, login": lambda given: SchemaRegistry.from_properties(
        {**registry(given), "basic.auth.user.info": PASSWORD}
    ),
    "SchemaRegistry.from_properties, number": lambda given: SchemaRegistry.from_properties(
        {**registry(given), "http.read.timeout.ms": PASSWORD}
    ),
    "SchemaRegistry.from_properties, line": lambda given: SchemaRegistry.from_properties(
        {
            **registry(given),
            "basic.auth.credentials.source": "SASL_INHERIT",
            "sasl.jaas.config": f'{JAAS} username="alice password="{PASSWORD}";',
        }
    ),
    "SchemaRegistry.from_properties of a damaged file": lambda given: (
        SchemaRegistry.from_properties(a_damaged_file(given))
    ),
    "TLS context": lambda given: cast("TlsContexts", tls_of(KEYSTORE)).get(),
    "login with a forbidden password": lambda given: mechanism_of(
        secured("PLAIN", sasl_username="alice", sasl_password=f"{PASSWORD}\0"), time
    ),
    "token provider": lambda given: mechanism_of(
        secured("OAUTHBEARER", **CREDENTIALS_THAT_FAIL, **{oauth("token_endpoint_url"): "ftp://a"}),
        time,
    ),
    "token provider with a line": lambda given: mechanism_of(
        secured(
            "OAUTHBEARER",
            sasl_jaas_config=f'{OAUTH} required clientId="shop" clientSecret="{PASSWORD};',
        ),
        time,
    ),
    "token provider with TLS": lambda given: mechanism_of(
        secured(
            "OAUTHBEARER",
            sasl_jaas_config=(
                f'{OAUTH} required clientId="shop" clientSecret="{PASSWORD}" '
                f'ssl.keystore.password="{PASSWORD}" ssl.no.such.option="{PASSWORD}";'
            ),
            **{oauth("token_endpoint_url"): "https://login.example"},
        ),
        time,
    ),
    "parse_jaas": lambda given: parse_jaas(f'{JAAS} username="alice password="{PASSWORD}";'),
}


@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_no_frame_of_a_constructor_that_raises_has_a_secret(
    constructor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    raised = 0
    for wrong in WRONG:
        try:
            CONSTRUCTORS[constructor]({"bootstrap_servers": "a:1", **OUR_SECRETS, **wrong})
        except Exception as error:
            raised += 1
            check_frames(error, f"{constructor}: {wrong}")
    assert raised


def check_frames(error: BaseException | None, where: str) -> None:
    """As Sentry, rich and pytest show an error: the values of each frame, and the causes."""
    while error is not None:
        assert PASSWORD not in f"{error} {error!r} {error.args} {error.__dict__}", where
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename.startswith(OUR_CODE):
                for name, value in frame.f_locals.items():
                    place = f"{where}: {name} in {frame.f_code.co_qualname}, line {line}"
                    assert PASSWORD not in repr(value), place
        error = error.__cause__ or error.__context__


OUR_CODE = str(Path(aioproducer.__file__).parent)
