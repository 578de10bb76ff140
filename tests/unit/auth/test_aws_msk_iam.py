"""aioproducer.auth.aws_msk_iam: published vectors, a second implementation, and hostile answers.

The vectors are kafka-python's; its client signs without botocore.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.auth.aws_msk_iam import (
    USER_AGENT,
    AwsMskIam,
    AwsMskIamExchange,
    AwsOptions,
    AwsSigner,
    msk_token_provider,
    parameters_of,
    region_of,
    sign,
)
from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.oauthbearer import token_from
from aioproducer.auth.tokens import TokenSource
from aioproducer.errors import (
    AuthenticationError,
    MissingExtraError,
    ProducerError,
    TokenEndpointError,
)
from aioproducer.foundation.secret import Secret
from tests.support.clock import Clock
from tests.support.http_server import Server, answer, serving
from tests.unit.auth.tokens_for_tests import everything_in

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    from kafka.net.sasl.msk import AwsMskIamClient  # type: ignore[import-untyped]

SIGNED_AT = 1629321911
HOST = "b-1.demo.abc123.c2.kafka.us-east-1.amazonaws.com"
SECRET = "s3cr3t" + "X" * 34
SESSION = "s3cr3t/t0ken+=="


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of the environment, and none of this machine's own."""
    for name in ("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "X" * 20)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.fromtimestamp(SIGNED_AT, UTC)
    monkeypatch.setattr(
        "botocore.auth.get_current_datetime",
        lambda remove_tzinfo=True: now.replace(tzinfo=None) if remove_tzinfo else now,
    )


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        (None, "0fa42ae3d5693777942a7a4028b564f0b372bafa2f71c1a19ad60680e6cb994b"),
        ("XXXXX", "b0619c50b7ecb4a7f6f92bd5f733770df5710e97b25146f97015c0b1db783b05"),
    ],
)
async def test_published_vectors(
    token: str | None, signature: str, at_that_time: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "X" * 40)
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    mechanism: Mechanism = AwsMskIam("us-east-1")
    exchange: Exchange = await mechanism.begin("localhost")
    expected = {
        "version": "2020_10_22",
        "host": "localhost",
        "user-agent": USER_AGENT,
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{'X' * 20}/20210818/us-east-1/kafka-cluster/aws4_request",
        "x-amz-date": "20210818T212511Z",
        "x-amz-signedheaders": "host",
        "x-amz-expires": "900",
        "x-amz-signature": signature,
    }
    if token:
        expected["x-amz-security-token"] = token
    assert json.loads(exchange.step(b"")) == expected


@given(
    st.from_regex(r"[a-z0-9]{1,20}(\.[a-z0-9-]{1,20}){0,5}", fullmatch=True),
    st.sampled_from(["us-east-1", "cn-north-1", "us-gov-west-1"]),
    st.text("ABCDEFGHIJKLMNOP0123456789", min_size=16, max_size=20),
    st.text("abcXYZ019/+=", min_size=1, max_size=40),
    st.none() | st.text("abcXYZ019/+= %&~", min_size=1, max_size=80),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_second_implementation_signs_the_same(
    at_that_time: None, host: str, region: str, key: str, secret: str, token: str | None
) -> None:
    signed = sign(host, region, ReadOnlyCredentials(key, secret, token))
    with mock.patch("kafka.net.sasl.msk.datetime") as clock:
        clock.datetime.now.return_value = datetime.fromtimestamp(SIGNED_AT, UTC)
        other = json.loads(AwsMskIamClient(host, key, secret, region, token).first_message())
    ours = {name.lower(): value for name, value in parameters_of(signed).items()}
    del other["user-agent"], other["version"], other["host"]
    assert ours == other


async def begun() -> AwsMskIamExchange:
    return await AwsMskIam().begin(HOST)


async def test_a_login_that_succeeds() -> None:
    exchange = await begun()
    assert not exchange.blocking
    message = json.loads(exchange.step(b""))
    assert message["host"] == HOST
    assert "/us-east-1/kafka-cluster/" in message["x-amz-credential"]
    assert not exchange.complete
    assert exchange.step(b'{"version": "2020_10_22", "request-id": "abc"}') == b""
    assert exchange.complete
    assert exchange.request_id == "'abc'"
    with pytest.raises(AuthenticationError):
        exchange.step(b"")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": "2020_10_22"}',
        b'{"version": "2020_10_22", "request-id": 7}',
        b'{"version": "2099_01_01", "request-id": "abc"}',
    ],
    ids=lambda challenge: repr(challenge[:40]),
)
async def test_answers_that_confirm_nothing(challenge: bytes) -> None:
    exchange = await begun()
    exchange.step(b"")
    with pytest.raises(AuthenticationError, match="AWS_MSK_IAM") as caught:
        exchange.step(challenge)
    assert not exchange.complete
    assert "s3cr3t" not in everything_in(caught.value)


@given(st.binary())
def test_no_answer_completes_a_login(challenge: bytes) -> None:
    exchange = AwsMskIamExchange(Secret("m"))
    exchange.step(b"")
    with pytest.raises(AuthenticationError):
        exchange.step(challenge)
    assert not exchange.complete


async def test_a_broker_that_speaks_first() -> None:
    exchange = await begun()
    with pytest.raises(AuthenticationError, match="before the client's message"):
        exchange.step(b"x")
    with pytest.raises(AuthenticationError):
        exchange.step(b"")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "us-east-1"),
        ("boot-abc.c1.kafka-serverless.eu-central-1.amazonaws.com", "eu-central-1"),
        ("b-1.x.c1.kafka.cn-northwest-1.amazonaws.com.cn", "cn-northwest-1"),
        ("b-1.x.c1.kafka.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("B-1.X.C1.KAFKA.AP-SOUTHEAST-4.AMAZONAWS.COM", "ap-southeast-4"),
        ("vpce-1.us-east-1.kafka.eu-west-1.vpce.amazonaws.com", "eu-west-1"),
        ("my-cluster-1.example.com", None),
        ("localhost", None),
        ("", None),
    ],
)
def test_the_region_in_a_brokers_name(host: str, region: str | None) -> None:
    assert region_of(host) == region


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
async def test_the_region_of_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthenticationError, match="set AWS_REGION"):
        await AwsMskIam().begin("kafka.example")
    monkeypatch.setenv(variable, "eu-west-3")
    exchange = await AwsMskIam().begin("kafka.example")
    assert b"/eu-west-3/" in exchange.step(b"")


async def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(AuthenticationError, match="no AWS credentials"):
        await begun()


async def test_a_profile(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        f"[other]\naws_access_key_id = OTHER\naws_secret_access_key = {SECRET}\n"
    )
    options = AwsOptions(profile="other")
    exchange = await AwsMskIam(options=options).begin(HOST)
    assert json.loads(exchange.step(b""))["x-amz-credential"].startswith("OTHER/")
    with pytest.raises(AuthenticationError, match="ProfileNotFound"):
        await AwsMskIam(options=AwsOptions(profile="none")).begin(HOST)


ROLE = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>ASSUMED</AccessKeyId><SecretAccessKey>s3cr3t-of-role</SecretAccessKey>
<SessionToken>s3cr3t-session</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""
DENIED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error>
<Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(answer(200, ROLE.encode(), Content_Type="text/xml")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        yield server


def of_role() -> AwsMskIam:
    options = AwsOptions(
        role_arn="arn:aws:iam::123456789012:role/kafka",
        role_session_name="me",
        role_external_id="outside",
        sts_region="eu-west-1",
    )
    return AwsMskIam(options=options)


async def test_a_role_is_assumed_once_and_kept_from_every_log(
    sts: Server, caplog: pytest.LogCaptureFixture
) -> None:
    mechanism = of_role()
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            message = json.loads((await mechanism.begin(HOST)).step(b""))
    assert message["x-amz-credential"].startswith("ASSUMED/")
    assert message["x-amz-security-token"] == "s3cr3t-session"
    assert len(sts.requests) == 1
    form = sts.requests[0].form
    assert (form["RoleSessionName"], form["ExternalId"]) == ("me", "outside")
    assert "s3cr3t" not in caplog.text
    assert message["x-amz-signature"] not in caplog.text
    assert "botocore" in caplog.text, "nothing was logged at all"


async def test_sts_refuses_or_is_down(sts: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        sts.script = [answer(403, DENIED.encode(), Content_Type="text/xml")]
        with pytest.raises(AuthenticationError, match="AccessDenied") as refused:
            await of_role().begin(HOST)
        sts.script = [answer(503, b"")]
        with pytest.raises(TokenEndpointError) as down:
            await of_role().begin(HOST)
    for caught in (refused.value, down.value):
        assert "s3cr3t" not in everything_in(caught)
    assert "s3cr3t" not in caplog.text


async def test_logins_at_once_share_the_credentials(sts: Server) -> None:
    mechanism = of_role()
    await asyncio.gather(*(mechanism.begin(HOST) for _ in range(20)))
    assert len(sts.requests) == 1


async def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("botocore", "botocore.config", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"aioproducer\[aws\]"):
        await begun()


async def test_a_token_for_oauthbearer(
    at_that_time: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", SESSION)
    provide = msk_token_provider("eu-north-1")
    with caplog.at_level(logging.DEBUG):
        token = await TokenSource(provide, clock=Clock(SIGNED_AT)).token()
    assert token.expires == SIGNED_AT + 900
    assert token_from(token).value == token.value, "brokers take its characters"
    value = token.value.reveal()
    url = urlsplit(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode())
    assert (url.scheme, url.hostname, url.path) == ("https", "kafka.eu-north-1.amazonaws.com", "/")
    parameters = {name: each[0] for name, each in parse_qs(url.query).items()}
    assert parameters["Action"] == "kafka-cluster:Connect"
    assert parameters["X-Amz-Expires"] == "900"
    assert parameters["X-Amz-Security-Token"] == SESSION
    assert parameters["User-Agent"] == USER_AGENT
    assert "s3cr3t" not in caplog.text


def test_equal_arguments_give_one_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    role = "arn:aws:iam::1:role/r"
    one = msk_token_provider("eu-west-1")
    assert msk_token_provider("eu-west-1") is one
    assert msk_token_provider("eu-west-2") is not one
    assumed = msk_token_provider("eu-west-1", AwsOptions(role_arn=role))
    assert assumed is not one
    assert msk_token_provider("eu-west-1", AwsOptions(role_arn=role)) is assumed
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "Y" * 20)
    assert msk_token_provider("eu-west-1") is not one, "it would sign with the old credentials"


def test_nothing_is_shown() -> None:
    options = AwsOptions(role_secret_access_key=Secret("s3cr3t"))
    shown: list[Any] = [options, vars(AwsMskIamExchange(Secret("s3cr3t")))]
    assert "s3cr3t" not in repr(shown)


async def test_a_client_whose_credentials_hang_holds_up_no_other_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()

    def hang(_: AwsSigner, host: str) -> ProducerError:
        if host == "slow":
            gate.wait()
        return AuthenticationError(host)

    monkeypatch.setattr(AwsSigner, "signed", hang)
    hanging = [asyncio.create_task(AwsMskIam().begin("slow")) for _ in range(65)]
    try:
        await asyncio.sleep(0)
        with pytest.raises(AuthenticationError, match=r"^quick$"):
            await AwsMskIam().begin("quick")
    finally:
        gate.set()
    for each in await asyncio.gather(*hanging, return_exceptions=True):
        assert isinstance(each, AuthenticationError)
