"""What providers of credentials may give, and the providers of the documentation for clouds."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.oauthbearer import claims_of
from aioproducer.auth.passwords import Plain
from aioproducer.auth.providers import ProvidedCredentials
from aioproducer.auth.tokens import TokenSource
from aioproducer.config import ProducerConfig
from aioproducer.config.login import mechanism_of
from aioproducer.errors import AuthenticationError, ConfigError, NetworkError, ProducerError
from aioproducer.foundation.secret import Secret
from tests.support.clock import Clock
from tests.unit.auth.tokens_for_tests import NOW, shown, shown_of_error

PASSWORD = "hunter2"


def provided_by(provider: Callable[[], Any], timeout: float = 30.0) -> ProvidedCredentials:
    return ProvidedCredentials("PLAIN", provider, Plain, timeout=timeout)


async def said_by(mechanism: Mechanism) -> bytes:
    return (await mechanism.begin("kafka.example")).step(b"")


async def by_coroutine() -> tuple[str, str]:
    return "alice", "hunter2"


def awaitable() -> asyncio.Future[tuple[str, str]]:
    """As a function does that hands the work to the event loop it was made on."""
    return by_coroutine()  # type: ignore[return-value]


class WithCall:
    async def __call__(self) -> list[Any]:
        return ["alice", Secret("hunter2")]


@pytest.mark.parametrize(
    "provider", [by_coroutine, awaitable, WithCall(), lambda: ("alice", "hunter2")]
)
async def test_forms_of_providers(provider: Callable[[], Any]) -> None:
    assert await said_by(provided_by(provider)) == b"\0alice\0hunter2"


async def test_a_configured_provider_may_be_an_import_path() -> None:
    config = ProducerConfig(
        bootstrap_servers="kafka.example:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_credentials_provider=f"{__name__}:by_coroutine",
    )
    mechanism = mechanism_of(config, lambda: 0.0)
    assert mechanism is not None
    assert mechanism.name == "PLAIN"
    assert await said_by(mechanism) == b"\0alice\0hunter2"
    with pytest.raises(ConfigError, match=r"sasl_credentials_provider='shop\.nowhere:f' can't"):
        mechanism_of(config.replace(sasl_credentials_provider="shop.nowhere:f"), lambda: 0.0)


async def test_the_mechanism_stays_the_same_until_the_credentials_change() -> None:
    password = "hunter2"
    mechanism = provided_by(lambda: ("alice", password))
    first = await mechanism.current()
    assert await mechanism.current() is first
    password = "hunter3"
    assert await mechanism.current() is not first


async def test_logins_at_the_same_time_share_an_answer() -> None:
    calls = 0
    go_on = asyncio.Event()

    async def provider() -> tuple[str, str]:
        nonlocal calls
        calls += 1
        await go_on.wait()
        return "alice", "hunter2"

    mechanism = provided_by(provider)
    logins = [asyncio.create_task(mechanism.current()) for _ in range(50)]
    await asyncio.sleep(0)
    logins[0].cancel()
    go_on.set()
    found = await asyncio.gather(*logins[1:])
    assert len(set(map(id, found))) == 1
    assert calls == 2, "one for the first, and one for all that came while it ran"


def assert_harmless(error: BaseException) -> None:
    assert PASSWORD not in shown_of_error(error)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (lambda _: None, r"returned NoneType; it must return a pair of str, \(user name, password"),
        (lambda password: f"alice:{password}", "returned str; it must"),
        (lambda _: ("alice", None), r"returned \(str, NoneType\); it must"),
        (lambda password: ("alice", password.encode()), r"returned \(str, bytes\); it must"),
        (lambda password: ("alice", password, password), r"returned \(str, str, str\); it must"),
        (lambda password: {"alice": password}, "returned dict; it must"),
    ],
)
async def test_an_answer_that_is_no_pair(form: Callable[[str], Any], told: str) -> None:
    with pytest.raises(AuthenticationError, match=f"sasl_credentials_provider {told}") as caught:
        await provided_by(lambda: form(PASSWORD)).current()
    assert_harmless(caught.value)


@pytest.mark.parametrize("end", ["\0", "\ud800"])
async def test_a_password_that_can_not_be_sent(end: str) -> None:
    with pytest.raises(ConfigError, match="PLAIN: the password") as caught:
        await provided_by(lambda: ("alice", PASSWORD + end)).current()
    assert_harmless(caught.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AttributeError("'NoneType' has no 'get'"), AuthenticationError),
        (KeyError("data"), AuthenticationError),
        (StopIteration(), AuthenticationError),
        (OSError("connection refused"), NetworkError),
        (RuntimeError("sealed"), NetworkError),
    ],
)
@pytest.mark.parametrize("in_thread", [True, False])
async def test_errors_of_a_provider(
    error: Exception, kind: type[ProducerError], in_thread: bool
) -> None:
    def provider() -> Any:
        raise error

    async def asynchronous() -> Any:
        raise error

    if isinstance(error, StopIteration):
        kind = NetworkError
    with pytest.raises(kind, match="sasl_credentials_provider failed with") as caught:
        await provided_by(provider if in_thread else asynchronous).current()
    assert caught.value.__cause__ is not None


async def test_a_provider_is_asked_again_after_an_error() -> None:
    answers: list[Any] = [OSError("not yet"), ("alice", "hunter2")]

    def provider() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    mechanism = provided_by(provider)
    with pytest.raises(NetworkError, match="OSError: not yet; it is called again for the next"):
        await mechanism.current()
    assert await said_by(mechanism) == b"\0alice\0hunter2"


@pytest.mark.parametrize("in_thread", [True, False])
async def test_a_provider_that_hangs_is_bounded(in_thread: bool) -> None:
    over = threading.Event()

    async def hangs() -> Any:
        await asyncio.Event().wait()

    mechanism = provided_by(over.wait if in_thread else hangs, timeout=0.01)
    try:
        with pytest.raises(NetworkError, match=r"not answer within 0\.01 s \(sasl_login_read"):
            await mechanism.current()
    finally:
        over.set()


async def test_nothing_shows_the_password() -> None:
    mechanism = provided_by(by_coroutine)
    exchange = await mechanism.begin("kafka.example")
    assert "hunter2" not in shown(mechanism) + shown(exchange)


async def test_providers_that_hang_hold_up_no_other_one() -> None:
    gate = threading.Event()

    def hang() -> tuple[str, str]:
        gate.wait()
        return "alice", PASSWORD

    hanging = [asyncio.create_task(provided_by(hang).current()) for _ in range(65)]
    try:
        await asyncio.sleep(0)
        assert await said_by(provided_by(lambda: ("alice", PASSWORD))) == b"\0alice\0hunter2"
    finally:
        gate.set()
    assert {type(each) for each in await asyncio.gather(*hanging)} == {Plain}


class AccessToken(NamedTuple):
    token: str
    expires_on: int


class DefaultAzureCredential:
    """As azure-identity has it."""

    def get_token(self, *scopes: str) -> AccessToken:
        assert scopes == ("https://space.servicebus.windows.net/.default",)
        return AccessToken("azure-token", int(NOW) + 3600)


class GoogleCredentials:
    """As ``google.auth.default()`` gives them: no token before the first refresh."""

    token: str | None = None
    expiry: datetime | None = None
    service_account_email = "me@project.iam.gserviceaccount.com"

    def refresh(self, request: object) -> None:
        self.token = "ya29.google_token"
        self.expiry = datetime.fromtimestamp(NOW + 3600, UTC).replace(tzinfo=None)


async def test_azure() -> None:
    credential = DefaultAzureCredential()

    def provider() -> AccessToken:
        return credential.get_token("https://space.servicebus.windows.net/.default")

    token = await TokenSource(provider, clock=Clock(NOW)).token()
    assert (token.value.reveal(), token.expires) == ("azure-token", NOW + 3600)


async def test_google() -> None:
    credentials = GoogleCredentials()

    def encoded(data: str) -> str:
        return base64.urlsafe_b64encode(data.encode()).rstrip(b"=").decode()

    def provider() -> tuple[str, float]:
        credentials.refresh(object())  # google.auth.transport.requests.Request()
        assert credentials.token is not None
        assert credentials.expiry is not None
        expires = credentials.expiry.replace(tzinfo=UTC).timestamp()
        header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        payload = {
            "exp": expires,
            "iat": NOW,
            "iss": "Google",
            "sub": credentials.service_account_email,
            "scope": "kafka",
        }
        parts = (json.dumps(header), json.dumps(payload), credentials.token)
        return ".".join(map(encoded, parts)), expires

    token = await TokenSource(provider, clock=Clock(NOW)).token()
    assert token.expires == NOW + 3600
    assert token.principal == "me@project.iam.gserviceaccount.com"
    assert claims_of(token.value)["iss"] == "Google"


async def test_googles_credentials_as_they_are() -> None:
    credentials = GoogleCredentials()

    async def provider() -> GoogleCredentials:
        credentials.refresh(object())
        return credentials

    token = await TokenSource(provider, clock=Clock(NOW)).token()
    assert (token.value.reveal(), token.expires) == ("ya29.google_token", NOW + 3600)
