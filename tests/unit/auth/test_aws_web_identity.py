"""The web identity of AWS, against a server on loopback that answers as STS does.

As credentials for Amazon MSK (AssumeRoleWithWebIdentity), and as a token (GetWebIdentityToken).
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import AssumeRoleWithWebIdentityProvider
from botocore.session import Session

from aioproducer.auth.aws_msk_iam import AwsMskIam, msk_token_provider
from aioproducer.auth.aws_web_identity import AwsWebIdentity, aws_web_identity_token_provider
from aioproducer.auth.tokens import TokenSource
from aioproducer.errors import (
    AuthenticationError,
    ConfigError,
    MissingExtraError,
    ProducerError,
    TokenEndpointError,
    TokenError,
)
from tests.support.clock import Clock
from tests.support.http_server import Reply, Server, answer, serving
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt

HOST = "b-1.demo.abc123.c2.kafka.us-east-1.amazonaws.com"
ROLE = "arn:aws:iam::123456789012:role/kafka"
XMLNS = 'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"'
VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ROLE_SESSION_NAME",
)  # fmt: skip


def assumed(key: str = "ASSUMED", ends: str = "2099-01-01T00:00:00Z") -> bytes:
    body = f"""<AssumeRoleWithWebIdentityResponse {XMLNS}><AssumeRoleWithWebIdentityResult>
<SubjectFromWebIdentityToken>system:serviceaccount:default:kafka</SubjectFromWebIdentityToken>
<Audience>sts.amazonaws.com</Audience><AssumedRoleUser><Arn>{ROLE}/me</Arn>
<AssumedRoleId>AROA:me</AssumedRoleId></AssumedRoleUser><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s3cr3t-of-role</SecretAccessKey>
<SessionToken>s3cr3t-session</SessionToken><Expiration>{ends}</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>"""
    return answer(200, body.encode(), Content_Type="text/xml")


def error(status: int, code: str, message: str = "no") -> bytes:
    body = f"""<ErrorResponse {XMLNS}><Error><Type>Sender</Type><Code>{code}</Code>
<Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"""
    return answer(status, body.encode(), Content_Type="text/xml")


def signed_by_sts(token: str, ends: float = NOW + 300) -> bytes:
    expiration = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = f"""<GetWebIdentityTokenResponse {XMLNS}><GetWebIdentityTokenResult>
<WebIdentityToken>{token}</WebIdentityToken><Expiration>{expiration}</Expiration>
</GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"""
    return answer(200, body.encode(), Content_Type="text/xml")


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(assumed()) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        yield server


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The token of a pod of EKS, with the variables that EKS sets."""
    file = tmp_path / "token"
    file.write_text("s3cr3t-web-identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    return file


async def test_aws_msk_iam(sts: Server, pod: Path, caplog: pytest.LogCaptureFixture) -> None:
    mechanism = AwsMskIam()
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            message = json.loads((await mechanism.begin(HOST)).step(b""))
    assert message["x-amz-credential"].startswith("ASSUMED/")
    assert message["x-amz-security-token"] == "s3cr3t-session"
    [request] = sts.requests
    assert request.form["Action"] == "AssumeRoleWithWebIdentity"
    assert request.form["RoleArn"] == ROLE
    assert request.form["WebIdentityToken"] == "s3cr3t-web-identity"
    assert request.headers["Authorization"] is None
    assert "s3cr3t" not in caplog.text
    assert "botocore" in caplog.text, "nothing was logged at all"


async def test_a_token_for_oauthbearer(sts: Server, pod: Path) -> None:
    token = await TokenSource(msk_token_provider("eu-north-1"), clock=Clock(0)).token()
    value = token.value.reveal()
    url = urlsplit(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode())
    parameters = parse_qs(url.query)
    assert parameters["X-Amz-Credential"][0].startswith("ASSUMED/")
    assert parameters["X-Amz-Security-Token"] == ["s3cr3t-session"]


async def test_credentials_are_renewed_with_the_file_as_it_is_then(sts: Server, pod: Path) -> None:
    sts.script = [assumed("FIRST", ends=f"{datetime.now(UTC).year}-01-01T00:00:00Z")]
    mechanism = AwsMskIam()
    with pytest.raises(AuthenticationError, match="expired"):
        await mechanism.begin(HOST)
    pod.write_text("s3cr3t-next")
    sts.script = [assumed("SECOND")]
    message = json.loads((await mechanism.begin(HOST)).step(b""))
    assert message["x-amz-credential"].startswith("SECOND/")
    assert sts.requests[-1].form["WebIdentityToken"] == "s3cr3t-next"


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (error(400, "InvalidIdentityToken"), AuthenticationError),
        (error(400, "ExpiredTokenException"), AuthenticationError),
        (error(403, "AccessDenied"), AuthenticationError),
        (error(400, "IDPCommunicationError"), TokenEndpointError),
        (error(400, "Throttling"), TokenEndpointError),
        (error(500, "InternalFailure"), TokenEndpointError),
        (answer(503, b""), TokenEndpointError),
        (answer(200, b"s3cr3t{", Content_Type="text/xml"), TokenEndpointError),
    ],
)
async def test_sts_refuses_or_is_down(
    sts: Server,
    pod: Path,
    script: Reply,
    kind: type[ProducerError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sts.script = [script]
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(kind, match="AWS credentials are not available") as caught,
    ):
        await AwsMskIam().begin(HOST)
    assert type(caught.value) is kind
    assert "s3cr3t" not in everything_in(caught.value)
    assert "s3cr3t" not in caplog.text


async def test_the_file_of_the_token_is_missing(sts: Server, pod: Path) -> None:
    pod.unlink()
    with pytest.raises(AuthenticationError, match="No such file") as caught:
        await AwsMskIam().begin(HOST)
    assert str(pod) in str(caught.value)


async def test_sts_of_the_brokers_region(
    sts: Server, pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a region of its own, botocore asks the global STS, which VPCs need not reach."""
    regions = []
    create = Session.create_client

    def noted(self: Session, *args: Any, **kwargs: Any) -> Any:
        regions.append(kwargs.get("region_name") or self.get_config_variable("region"))
        return create(self, *args, **kwargs)

    monkeypatch.setattr(Session, "create_client", noted)
    await AwsMskIam().begin(HOST)
    assert regions == ["us-east-1"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    await AwsMskIam().begin(HOST)
    assert regions == ["us-east-1", "eu-west-3"]


def test_botocore_reads_the_variables_itself() -> None:
    """The judge of the variables' names."""
    assert AssumeRoleWithWebIdentityProvider._CONFIG_TO_ENV_VAR == {
        "web_identity_token_file": "AWS_WEB_IDENTITY_TOKEN_FILE",
        "role_session_name": "AWS_ROLE_SESSION_NAME",
        "role_arn": "AWS_ROLE_ARN",
    }


# --- GetWebIdentityToken -------------------------------------------------------------------


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-key")


def refused(provider: Callable[[], object], kind: type[ProducerError], *told: str) -> None:
    with pytest.raises(kind) as caught:
        provider()
    assert type(caught.value) is kind
    for text in told:
        assert text in str(caught.value)
    assert "s3cr3t" not in everything_in(caught.value)


async def test_a_token_of_sts(sts: Server, keys: None, caplog: pytest.LogCaptureFixture) -> None:
    value = jwt({"sub": ROLE, "aud": "kafka", "exp": NOW + 300}, "s3cr3t")
    sts.script = [signed_by_sts(value)]
    provider = aws_web_identity_token_provider("eu-west-1", "kafka", tags={"team": "orders"})
    with caplog.at_level(logging.DEBUG):
        token = await TokenSource(provider, clock=Clock(NOW)).token()
    assert token.value.reveal() == value
    assert token.expires == NOW + 300
    assert token.principal == ROLE
    [request] = sts.requests
    assert {name: text for name, text in request.form.items() if name != "Version"} == {
        "Action": "GetWebIdentityToken",
        "Audience.member.1": "kafka",
        "DurationSeconds": "300",
        "SigningAlgorithm": "ES384",
        "Tags.member.1.Key": "team",
        "Tags.member.1.Value": "orders",
    }
    assert "/eu-west-1/sts/aws4_request" in (request.headers["Authorization"] or "")
    assert "s3cr3t" not in caplog.text
    assert value not in caplog.text


def test_a_token_of_sts_with_the_identity_of_a_pod(sts: Server, pod: Path) -> None:
    sts.script = [assumed(), signed_by_sts("s3cr3t-jwt"), signed_by_sts("s3cr3t-next")]
    provider = AwsWebIdentity("eu-west-1", "kafka")
    assert provider().value.reveal() == "s3cr3t-jwt"
    assert provider().value.reveal() == "s3cr3t-next"
    actions = [each.form["Action"] for each in sts.requests]
    assert actions == ["AssumeRoleWithWebIdentity", "GetWebIdentityToken", "GetWebIdentityToken"]


@pytest.mark.parametrize(
    ("script", "kind", "told"),
    [
        (error(403, "AccessDenied"), AuthenticationError, "AccessDenied"),
        (
            error(400, "OutboundWebIdentityFederationDisabledException"),
            AuthenticationError,
            "OutboundWebIdentityFederationDisabled",
        ),
        (error(429, "Throttling"), TokenEndpointError, "the producer retries"),
        (answer(503, b""), TokenEndpointError, "the producer retries"),
        (answer(200, b"<a/>", Content_Type="text/xml"), TokenError, "without a WebIdentityToken"),
        (answer(200, b"s3cr3t{"), TokenEndpointError, "returned no token: ResponseParserError"),
        (signed_by_sts("s3cr3t with blanks"), TokenError, "no bearer token"),
    ],
)
def test_sts_gives_no_token(
    sts: Server, keys: None, script: Reply, kind: type[ProducerError], told: str
) -> None:
    sts.script = [script]
    refused(AwsWebIdentity("eu-west-1", "kafka"), kind, told)


def test_no_credentials(sts: Server) -> None:
    refused(AwsWebIdentity("eu-west-1", "kafka"), AuthenticationError, "NoCredentials")
    assert not sts.requests


@pytest.mark.parametrize(
    "options",
    [
        {"region": ""},
        {"audience": ""},
        {"duration_seconds": 59},
        {"duration_seconds": 3601},
        {"signing_algorithm": "HS256"},
        {"tags": {str(number): "x" for number in range(51)}},
    ],
)
def test_arguments_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="tokens of AWS STS"):
        aws_web_identity_token_provider(**{"region": "eu-west-1", "audience": "kafka", **options})


def test_an_old_botocore(sts: Server, keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        """A client of STS before GetWebIdentityToken."""

    monkeypatch.setattr(Session, "create_client", lambda self, *args, **kwargs: Old())
    refused(AwsWebIdentity("eu-west-9", "kafka"), MissingExtraError, "botocore 1.42", "pip install")


def test_without_botocore(keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("botocore", "botocore.config", "botocore.session"):
        monkeypatch.setitem(sys.modules, name, None)
    refused(AwsWebIdentity("eu-west-8", "kafka"), MissingExtraError, "aioproducer[aws]")


def test_equal_providers_and_pickles() -> None:
    one = aws_web_identity_token_provider("eu-west-1", "kafka", tags={"b": "1", "a": "2"})
    other = aws_web_identity_token_provider("eu-west-1", "kafka", tags={"a": "2", "b": "1"})
    assert one == other == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(other)
