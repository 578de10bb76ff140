"""aioproducer.auth.oauth_login: the tokens that a configuration selects, and their mechanism."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aioproducer.auth.azure import azure_token_provider
from aioproducer.auth.mechanism import Mechanism
from aioproducer.config import ProducerConfig
from aioproducer.config.login import mechanism_of
from aioproducer.errors import ConfigError, TokenEndpointError, TokenError
from aioproducer.testing.certificates import Authority
from tests.support.clock import Clock
from tests.support.http_server import Request, Server, answer, serving, silence
from tests.unit.auth.tokens_for_tests import NOW


def configured(**options: Any) -> ProducerConfig:
    secured: dict[str, Any] = {
        "bootstrap_servers": "kafka.example:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }
    return ProducerConfig(**{**secured, **options})


def with_provider(provider: Callable[[], Any] | str) -> Mechanism:
    made = mechanism_of(configured(sasl_oauthbearer_token_provider=provider), Clock(NOW))
    assert made is not None
    return made


async def said_by(mechanism: Mechanism) -> bytes:
    return (await mechanism.begin("kafka.example")).step(b"")


@dataclass
class Unhashable:
    """Equal to its like, and not hashable, as a dataclass is that is not frozen."""

    calls: int = 0

    def __call__(self) -> tuple[str, float]:
        self.calls += 1
        return "token", NOW + 3600


@dataclass(frozen=True)
class Equal:
    """Equal to its like, whatever token it gives."""

    def token(self) -> str:
        return f"token-{id(self)}"

    __call__ = token


async def test_a_provider_need_not_be_hashable() -> None:
    provider = Unhashable()
    assert b"Bearer token" in await said_by(with_provider(provider))
    assert b"Bearer token" in await said_by(with_provider(provider))
    assert provider.calls == 1


@pytest.mark.parametrize("as_provider", [lambda one: one, lambda one: one.token, partial])
async def test_equal_providers_do_not_share_a_token(
    as_provider: Callable[[Equal], Callable[[], str]],
) -> None:
    one, other = Equal(), Equal()
    assert one == other
    for each in (one, other):
        assert str(id(each)).encode() in await said_by(with_provider(as_provider(each)))


async def test_a_method_is_one_provider_each_time_it_is_looked_up() -> None:
    calls = []

    class Mine:
        def token(self) -> tuple[str, float]:
            calls.append(1)
            return "token", NOW + 3600

    mine = Mine()
    for _ in range(2):
        await said_by(with_provider(mine.token))
    assert len(calls) == 1


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def store(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "authority.pem"
    path.write_text(authority.pem)
    return path


@pytest.fixture
def identity_provider(authority: Authority) -> Iterator[Server]:
    token = answer(200, {"access_token": "token", "expires_in": 3600})
    with serving(token, tls=authority.issue().server_context()) as running:
        yield running


def with_endpoint(server: Server, **options: Any) -> Mechanism:
    credentials = {
        "sasl_oauthbearer_token_endpoint_url": server.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "me",
        "sasl_oauthbearer_client_credentials_client_secret": "s3cr3t",
    }
    made = mechanism_of(configured(**{**credentials, **options}), Clock(NOW))
    assert made is not None
    return made


def jaas(options: str) -> str:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return f"{module} required {options};"


async def test_an_endpoint_of_an_own_authority_is_trusted_by_the_truststore(
    identity_provider: Server, authority: Authority, store: Path
) -> None:
    with pytest.raises(TokenError, match=r"ssl_truststore_location, or .* ssl.truststore.location"):
        await said_by(with_endpoint(identity_provider))
    told = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": authority.pem}
    for options in ({"ssl_truststore_location": str(store)}, told):
        assert b"Bearer token" in await said_by(with_endpoint(identity_provider, **options))


async def test_the_truststore_of_the_jaas_line_holds_for_the_endpoint_alone(
    identity_provider: Server, store: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority("another").pem)
    line = jaas(f'ssl.truststore.location="{store}" ssl.truststore.type="PEM"')
    options = {"ssl_truststore_location": str(other), "sasl_jaas_config": line}
    assert b"Bearer token" in await said_by(with_endpoint(identity_provider, **options))
    swapped = {
        "ssl_truststore_location": str(store),
        "sasl_jaas_config": jaas(f'ssl.truststore.location="{other}"'),
    }
    with pytest.raises(TokenError, match="can't be trusted"):
        await said_by(with_endpoint(identity_provider, **swapped))


async def test_a_truststore_stands_beside_the_systems_authorities(
    identity_provider: Server, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority("another").pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(store))
    mechanism = with_endpoint(identity_provider, ssl_truststore_location=str(other))
    assert b"Bearer token" in await said_by(mechanism)


async def test_a_truststore_that_is_missing_is_named(
    identity_provider: Server, tmp_path: Path
) -> None:
    line = jaas(f'ssl.truststore.location="{tmp_path / "none.pem"}"')
    with pytest.raises(ConfigError, match=r"none\.pem.*can't be read"):
        await said_by(with_endpoint(identity_provider, sasl_jaas_config=line))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('ssl.engine.factory.class="s3cr3t"', r"the option ssl\.engine\.factory\.class"),
        ('ssl.context="s3cr3t"', r"the option ssl\.context"),
        ("ssl.keystore.password=s3cr3t", "ssl_keystore_password is set, but there is no key"),
        ('ssl.enabled.protocols="TLSv1.1, TLSv1.2"', "TLSv1.1 is insecure"),
    ],
)
def test_options_of_tls_in_the_jaas_line_are_checked(
    identity_provider: Server, options: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=f"sasl_jaas_config: {told}") as caught:
        with_endpoint(identity_provider, sasl_jaas_config=jaas(options))
    assert "s3cr3t" not in str(caught.value)


MSK_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"


async def test_tokens_of_amazon_are_for_the_region_of_the_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    brokers = {"bootstrap_servers": "b-1.shop.c2.kafka.eu-north-1.amazonaws.com:9098"}
    config = configured(sasl_login_callback_handler_class=MSK_HANDLER, **brokers)
    mechanism = mechanism_of(config, time.time)  # AWS signs for now
    assert mechanism is not None
    said = (await said_by(mechanism)).decode()
    _, _, token = said.partition("auth=Bearer ")
    padded = token.partition("\1")[0] + "==="
    assert "eu-north-1" in base64.urlsafe_b64decode(padded).decode()


def test_tokens_of_amazon_need_a_region() -> None:
    with pytest.raises(ConfigError, match="sasl_aws_region is required"):
        mechanism_of(configured(sasl_login_callback_handler_class=MSK_HANDLER), Clock(NOW))


@pytest.fixture
def imds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Azure's, whose token lasts an hour; this machine has no other identity."""
    for name in ("AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "IMDS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MSI_ENDPOINT", "AZURE_CLIENT_ID"):
        monkeypatch.delenv(name, raising=False)
    with serving(answer(200, {"access_token": "azure", "expires_in": "3600"})) as running:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", running.url)
        yield running


async def test_equal_identities_share_a_token_by_the_clients_clock(imds: Server) -> None:
    clock = Clock(NOW)

    def another() -> Mechanism:
        provider = azure_token_provider("api://equal")
        made = mechanism_of(configured(sasl_oauthbearer_token_provider=provider), clock)
        assert made is not None
        return made

    for _ in range(2):  # the second one has the first one's token, until it is to be refreshed
        assert b"Bearer azure" in await said_by(another())
    assert len(imds.requests) == 1
    clock.now += 3500
    await said_by(another())
    assert len(imds.requests) == 2


@pytest.mark.parametrize("as_option", [True, False])
async def test_the_time_limits_of_an_identity_are_options(imds: Server, as_option: bool) -> None:
    imds.script = [silence]
    options: dict[str, Any] = {"sasl_oauthbearer_token_provider": azure_token_provider("api://x")}
    if as_option:
        options = {
            "sasl_oauthbearer_metadata_authentication_type": "azure",
            "sasl_oauthbearer_config": "resource=api://x",
        }
    made = mechanism_of(configured(**options, sasl_login_read_timeout_ms=50), Clock(NOW))
    assert made is not None
    with pytest.raises(TokenEndpointError, match="ReadTimeout"):
        await said_by(made)


async def test_googles_identity_by_the_name_of_its_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    google = {"Metadata_Flavor": "Google"}

    def both(request: Request, _: object) -> bytes:
        is_email = "/email " in request.line
        body: Any = b"me@p.iam" if is_email else {"access_token": "ya29.x", "expires_in": 60}
        return answer(200, body, **google)

    with serving(both) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.address)
        handler = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
        made = mechanism_of(configured(sasl_login_callback_handler_class=handler), Clock(NOW))
        assert made is not None
        said = (await said_by(made)).decode()
    claims = said.split("Bearer ")[1].split(".")[1]
    assert b'"exp": %d' % (NOW + 60) in base64.urlsafe_b64decode(claims + "==")
