"""Each text of ``docs/how-to/security.md`` is read, and each program runs, with fakes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import aioproducer
from aioproducer import ProducerConfig, errors
from aioproducer.auth.aws_msk_iam import AwsLogin
from aioproducer.auth.azure import AzureIdentity
from aioproducer.auth.gcp import GcpIdentity
from aioproducer.auth.mechanism import Login
from aioproducer.auth.oauth_login import ClientCredentialsSettings, OAuthLogin
from aioproducer.auth.oauthbearer import Token, token_from
from aioproducer.auth.passwords import PlainLogin, ScramLogin
from aioproducer.config import Secret
from aioproducer.config.login import login_of
from aioproducer.engine.core.queries import ClusterCheck, TopicCheck
from aioproducer.errors import BootstrapError

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "security.md").read_text("utf-8")
EVERYTHING = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
VARIABLES = {name: f"hunter2-{name}" for name in re.findall(r"\$\{env:(\w+)\}", PAGE)}
FOUND = ClusterCheck("cluster-1", (), {}, {}, {"orders": TopicCheck(3, True)}, None)


def blocks(kind: str) -> list[Any]:
    found = []
    heading, number = "", 0
    for each in EVERYTHING.finditer(PAGE):
        if each["heading"]:
            heading, number = each["heading"], 0
        elif each["kind"] == kind:
            number += 1
            found.append(pytest.param(each["text"], id=f"{heading} {number}"))
    return found


class FakeProducer:
    """Checks its options, and its provider's token; ``check()`` finds what the test has set."""

    made: list[ProducerConfig] = []  # noqa: RUF012
    outcome: ClusterCheck | Exception = FOUND

    def __init__(self, **options: Any) -> None:
        self.config = ProducerConfig(**options)
        self.made.append(self.config)

    async def __aenter__(self) -> FakeProducer:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def check(self, timeout: float, *, topics: list[str]) -> ClusterCheck:
        assert timeout > 0
        if isinstance(self.outcome, Exception):
            raise self.outcome
        assert topics == list(self.outcome.topics)
        return self.outcome


class GoogleCredentials:
    token: str | None = None
    expiry: datetime | None = None
    service_account_email = "me@project.iam.gserviceaccount.com"

    def refresh(self, request: object) -> None:
        assert request == "a request"
        self.token = "ya29.token"
        self.expiry = datetime.fromtimestamp(time.time() + 3600, UTC).replace(tzinfo=None)


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the programs of the page import, and the variables that they refer to."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    azure = SimpleNamespace(
        get_token=lambda scope: SimpleNamespace(token="azure", expires_on=int(time.time()) + 3600)
    )
    fakes: dict[str, dict[str, Any]] = {
        "azure": {},
        "azure.identity": {"DefaultAzureCredential": lambda: azure},
        "google": {},
        "google.auth": {"default": lambda scopes: (GoogleCredentials(), "project")},
        "google.auth.transport": {},
        "google.auth.transport.requests": {"Request": lambda: "a request"},
    }
    for name, members in fakes.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    monkeypatch.setattr(aioproducer, "Producer", FakeProducer)
    FakeProducer.made = []
    yield
    FakeProducer.outcome = FOUND


async def run(text: str) -> dict[str, Any]:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(text, "docs/how-to/security.md", "exec", flags=flags, dont_inherit=True)
    names: dict[str, Any] = {"__name__": "security"}
    outcome = eval(code, names)
    if inspect.isawaitable(outcome):
        await outcome
    return names


@pytest.mark.parametrize("text", blocks("python"))
async def test_programs_run(text: str) -> None:
    names = await run(text)
    for made in FakeProducer.made:
        assert "hunter2" not in repr(made)
        login_of(made)
        provider: Callable[[], Any] | None = made.sasl_oauthbearer_token_provider  # type: ignore[assignment]
        if provider is not None and "aioproducer.auth" not in text:
            given = provider()
            token = token_from(await given if inspect.isawaitable(given) else given)
            assert isinstance(token, Token)
            assert token.expires is not None
            assert token.expires > time.time() + 3000
    assert FakeProducer.made or "options" in names or "app" in names


async def test_the_web_application_starts_and_tells_of_its_health() -> None:
    [text] = [each.values[0] for each in blocks("python") if "FastAPI" in each.values[0]]
    names = await run(text)
    app, health = names["app"], names["health"]
    async with app.router.lifespan_context(app):
        assert await health() == {"cluster": "cluster-1"}
        FakeProducer.outcome = BootstrapError("no broker")
        with pytest.raises(names["HTTPException"]) as caught:
            await health()
        assert (caught.value.status_code, caught.value.detail) == (503, "no broker")
    with pytest.raises(BootstrapError):
        async with app.router.lifespan_context(app):
            pass


def test_the_options_for_spark_are_taken() -> None:
    from aioproducer.spark.plan import plan_write, refuse_shown_secrets

    [text] = [each.values[0] for each in blocks("python") if '"kafka.' in each.values[0]]
    names: dict[str, Any] = {}
    exec(text, names)
    plan = plan_write(names["options"], {"value": "string"})
    refuse_shown_secrets(plan)
    assert plan.plain_secrets() == ()
    assert login_of(plan.config()) == ScramLogin(
        "SCRAM-SHA-512", "orders-app", Secret(VARIABLES["KAFKA_PASSWORD"])
    )


def scram(mechanism: str, user: str, password: str) -> ScramLogin:
    return ScramLogin(mechanism, user, Secret(password))


LOGINS: dict[str, Login | None] = {
    "Java's properties files 1": scram("SCRAM-SHA-512", "orders-app", VARIABLES["KAFKA_PASSWORD"]),
    "Confluent Cloud 1": PlainLogin("API_KEY", Secret("API_SECRET")),
    "Confluent Cloud 2": OAuthLogin(
        ClientCredentialsSettings(
            "https://LOGIN/oauth2/token",
            "CLIENT",
            Secret("SECRET"),
            "SCOPE",
            header_urlencode=False,
        ),
        (("logicalCluster", "lkc-ID"), ("identityPoolId", "pool-ID")),
    ),
    "Amazon MSK 1": AwsLogin(),
    "Amazon MSK 2": scram("SCRAM-SHA-512", "USER", "PASSWORD"),
    "Azure Event Hubs 1": PlainLogin(
        "$ConnectionString",
        Secret(
            "Endpoint=sb://NAMESPACE.servicebus.windows.net/;"
            "SharedAccessKeyName=NAME;SharedAccessKey=KEY"
        ),
    ),
    "Azure Event Hubs 2": OAuthLogin(
        AzureIdentity("https://NAMESPACE.servicebus.windows.net".lower())
    ),
    "Google's Managed Service for Apache Kafka 1": OAuthLogin(GcpIdentity()),
    "Google's Managed Service for Apache Kafka 2": PlainLogin(
        "NAME@PROJECT.iam.gserviceaccount.com", Secret("BASE64_OF_THE_KEY_FILE")
    ),
    "Redpanda 1": scram("SCRAM-SHA-256", "USER", "PASSWORD"),
    "Strimzi 1": None,
    "Strimzi 2": scram("SCRAM-SHA-512", "USER", "hunter2-password"),
    "Aiven 1": None,
    "Aiven 2": scram("SCRAM-SHA-256", "avnadmin", "PASSWORD"),
}


def test_every_file_of_the_page_has_its_login_here() -> None:
    assert [each.id for each in blocks("properties")] == list(LOGINS)


@pytest.mark.parametrize("text", blocks("properties"))
def test_files_of_services_are_read(
    text: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("user.key", "user.crt", "password"):
        (tmp_path / name).write_text(f"hunter2-{name}")
    (tmp_path / "user.crt").write_text("-----BEGIN CERTIFICATE-----")
    path = tmp_path / "client.properties"
    path.write_text(text.replace("/etc/user", str(tmp_path)))
    made = ProducerConfig.from_properties(path)
    expected = LOGINS[request.node.callspec.id]
    assert login_of(made) == expected
    assert made.security_protocol == ("SASL_SSL" if expected else "SSL")
    assert caplog.text == ""
    for secret in ("hunter2", "API_SECRET", "PASSWORD", "BASE64", "SharedAccessKey"):
        assert secret not in repr(made).replace("KAFKA_PASSWORD", "")


def test_errors_of_the_page_are_there() -> None:
    named = set(re.findall(r"`(\w+Error)`", PAGE))
    assert len(named) > 10
    assert named <= set(dir(errors))
