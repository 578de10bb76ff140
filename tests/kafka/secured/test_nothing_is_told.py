"""Everything that failing logins print, of every mechanism, at DEBUG: no secret is in it."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import aioproducer
from aioproducer import Producer
from aioproducer.engine.network import login
from aioproducer.errors import ConfigError, ProducerError
from aioproducer.observability.log_handler import JsonFormatter, KafkaHandler
from aioproducer.testing.certificates import Authority
from tests.kafka.secured.secured_kafka import SecuredKafka, join
from tests.support.http_server import Request, Server, answer, serving

pytestmark = pytest.mark.kafka

OURS = str(Path(aioproducer.__file__).parent)
Made = tuple[dict[str, Any], list[str]]
"""The options of a producer, and the secrets in them."""


def secret() -> str:
    """Made here: no line of this file, which tracebacks quote, has it."""
    return f"s{secrets.token_hex(12)}"


def plain(world: SecuredKafka) -> Made:
    word = secret()
    return world.login("PLAIN", "alice", word), [word]


def plain_by_jaas(world: SecuredKafka) -> Made:
    word = secret()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    line = f'{module} required username="alice" password="{word}";'
    return world.login("PLAIN", sasl_jaas_config=line), [word]


def scram(mechanism: str) -> Callable[[SecuredKafka], Made]:
    def made(world: SecuredKafka) -> Made:
        word = secret()
        return world.login(mechanism, "alice", word), [word]

    return made


def foreign_token(world: SecuredKafka) -> Made:
    word = secret()
    name = "sasl_oauthbearer_client_credentials_client_secret"
    return world.oauth("told", issuer="foreign", **{name: word}), [word]


def given_token(world: SecuredKafka) -> Made:
    token = secret()
    options = world.login("OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: token)
    return {**options, "sasl_oauthbearer_extensions": {"traceId": "x"}}, [token]


def refused_by_the_endpoint(world: SecuredKafka) -> Made:
    """The test names the endpoint, which repeats what it got."""
    word = secret()
    name = "sasl_oauthbearer_client_credentials_client_secret"
    encoded = base64.b64encode(f"told:{word}".encode()).decode()
    return world.oauth("told", **{name: word}), [word, encoded]


def parrot(request: Request, _: object) -> bytes:
    got = request.headers["Authorization"]
    said = base64.b64decode(got.removeprefix("Basic ")).decode()
    told = f"{got} {said} {request.body.decode()}".replace('"', "")
    return answer(401, {"error": "invalid_client", "error_description": told})


def aws(world: SecuredKafka) -> Made:
    """The listener does not offer it; nobody has signed anything then."""
    word = secret()
    options = world.login("AWS_MSK_IAM", sasl_aws_region="eu-north-1")
    return options, [word]


def kerberos(world: SecuredKafka) -> Made:
    """The keytab has another principal."""
    options = world.kerberos()
    return {**options, "sasl_kerberos_principal": "nobody"}, []


def key_of_a_file(world: SecuredKafka) -> Made:
    word, wrong = secret(), secret()
    client = world.authority.issue("client")
    file = client.write(world.directory / "told.pem", word)
    options = world.tls("MTLS", ssl_keystore_location=str(file), ssl_keystore_type="PEM")
    return {**options, "ssl_key_password": wrong}, [word, wrong, lines_of(client.key_pem())]


def key_in_an_option(world: SecuredKafka) -> Made:
    """The broker trusts another authority."""
    word = secret()
    client = Authority("Another").issue("client")
    key = client.key_pem(word)
    options = world.tls(
        "MTLS",
        ssl_keystore_type="PEM",
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=client.chain_pem,
        ssl_key_password=word,
    )
    return options, [word, lines_of(key), lines_of(client.key_pem())]


def pkcs12(world: SecuredKafka) -> Made:
    word, wrong = secret(), secret()
    file = world.directory / "told.p12"
    file.write_bytes(world.authority.issue("client").pkcs12(word))
    options = world.tls("MTLS", ssl_keystore_location=str(file), ssl_keystore_type="PKCS12")
    return {**options, "ssl_keystore_password": wrong}, [word, wrong]


def lines_of(key: str) -> str:
    """A line from within a PEM text."""
    return key.splitlines()[1]


FAILING: dict[str, Callable[[SecuredKafka], Made]] = {
    "PLAIN": plain,
    "PLAIN by JAAS": plain_by_jaas,
    "SCRAM-SHA-256": scram("SCRAM-SHA-256"),
    "SCRAM-SHA-512": scram("SCRAM-SHA-512"),
    "OAUTHBEARER, foreign token": foreign_token,
    "OAUTHBEARER, given token": given_token,
    "OAUTHBEARER, refused by the endpoint": refused_by_the_endpoint,
    "AWS_MSK_IAM": aws,
    "GSSAPI": kerberos,
    "a key's password": key_of_a_file,
    "a key in an option": key_in_an_option,
    "a store's password": pkcs12,
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Server]:
    with serving(parrot) as server:
        yield server


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was sent to brokers in logins: whole messages, and the proofs in them."""
    sent: list[str] = []
    step = login._step

    async def noted(*args: Any) -> bytes:
        said = await step(*args)
        for part in {said, *said.split(b"p="), *said.split(b"Bearer "), *said.split(b"\0")}:
            text = part.strip(b"\x01").decode("latin-1")
            if len(text) > 8:
                sent.append(text)
        return said

    monkeypatch.setattr(login, "_step", noted)
    return sent


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.kerberos if kind == "GSSAPI" else ())
        for kind in FAILING
    ],
)
async def test_a_failing_login_tells_no_secret(
    kind: str,
    world: SecuredKafka,
    responses: list[str],
    endpoint: Server,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.get_running_loop().set_debug(True)
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(logging.Formatter("%(message)s"))
    if kind == "GSSAPI":
        join(world.realm, monkeypatch)
    options, words = FAILING[kind](world)
    if "refused by the endpoint" in kind:
        options["sasl_oauthbearer_token_endpoint_url"] = endpoint.token_url
    if kind == "AWS_MSK_IAM":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", words[0])
    told: list[str] = []
    ends: Sequence[object]
    try:
        async with Producer(max_block_ms=1500, **options) as producer:
            ends = await asyncio.gather(
                producer.send("orders", b"never"),
                producer.check(1.5, topics=["orders"]),
                return_exceptions=True,
            )
            told += [repr(producer), repr(producer.config), repr(producer.metrics())]
            health = producer.health()
            assert health.can_write is not True
            told += [str(health), repr(health), repr(health.as_dict())]
    except ConfigError as error:
        ends = [error]
    for end in ends:
        assert isinstance(end, ProducerError)
        told.append(shown(end))
    told.append(caplog.text)
    told += [JsonFormatter().format(each) for each in caplog.records]  # with all fields
    everything = "\n".join(told)
    assert "aioproducer" in everything
    for word in [*words, *responses]:
        assert word not in everything
        assert repr(word)[1:-1] not in everything


def shown(error: BaseException) -> str:
    """The chain of tracebacks, with the variables of our own frames."""
    seen: list[str] = []
    pending: list[BaseException | None] = [error]
    known: set[int] = set()
    while pending:
        each = pending.pop()
        if each is None or id(each) in known:
            continue
        known.add(id(each))
        pending += [each.__cause__, each.__context__]
        seen += [repr(each), str(each), repr(each.args)]
        for frame in traceback.TracebackException.from_exception(each, capture_locals=True).stack:
            seen.append(f"{frame.filename}:{frame.lineno}")
            if frame.filename.startswith(OURS):
                seen += [f"{name}={value}" for name, value in (frame.locals or {}).items()]
    return "\n".join(seen)


def test_a_log_handler_with_a_wrong_option_tells_no_secret() -> None:
    word = secret()
    with pytest.raises(ConfigError) as caught:
        KafkaHandler("logs", sasl_password=word, acks="some")  # type: ignore[arg-type]
    assert word not in shown(caught.value)


def test_the_search_finds_what_a_frame_of_ours_holds(world: SecuredKafka) -> None:
    word = secret()
    with pytest.raises(ConfigError) as caught:
        Producer(bootstrap_servers="localhost:1", client_id=word, acks="some")  # type: ignore[arg-type]
    assert word in shown(caught.value)
