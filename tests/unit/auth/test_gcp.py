"""aioproducer.auth.gcp, against a server on loopback that answers as Google's metadata server."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from aioproducer.auth.gcp import GcpIdentity, gcp_token_provider
from aioproducer.auth.http_exchange import Limits
from aioproducer.auth.oauthbearer import token_from
from aioproducer.errors import ProducerError, TokenEndpointError, TokenError
from tests.support.clock import Clock
from tests.support.http_server import Reply, Request, Server, answer, serving, silence
from tests.unit.auth.tokens_for_tests import NOW, everything_in

ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default"
EMAIL = "kafka@project.iam.gserviceaccount.com"
TOKEN = {"access_token": "ya29.s3cr3t_t0ken", "expires_in": 3599, "token_type": "Bearer"}
FLAVOR = {"Metadata_Flavor": "Google"}


class MetadataServer:
    """As Google's: 403 without its header, and one answer for each path."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.email: Reply = answer(200, EMAIL.encode(), Content_Type="application/text", **FLAVOR)
        self.token: Reply = answer(200, TOKEN, Content_Type="application/json", **FLAVOR)

    def __call__(self, request: Request, _: object) -> Reply:
        path = request.target.partition("?")[0]
        if request.headers["Metadata-Flavor"] != "Google":
            return answer(403, b"Missing required header", **FLAVOR)
        if path == f"{ACCOUNT}/email":
            return self.email
        if path == f"{ACCOUNT}/token":
            return self.token
        return answer(404, b"", **FLAVOR)


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataServer]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(answer(500)) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.address)
        made = MetadataServer(server)
        server.script = [made]
        yield made


def identity() -> GcpIdentity:
    return GcpIdentity(Clock(NOW))


def refused(kind: type[ProducerError], *told: str) -> None:
    with pytest.raises(kind) as caught:
        identity()()
    assert type(caught.value) is kind
    for text in told:
        assert text in str(caught.value)
    assert "s3cr3t" not in everything_in(caught.value)


def part(token: str, number: int) -> bytes:
    encoded = token.split(".")[number]
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))


def test_the_token_of_googles_brokers(metadata: MetadataServer) -> None:
    token = identity()()
    assert token.expires == NOW + 3599
    assert token.principal == EMAIL
    value = token.value.reveal()
    assert json.loads(part(value, 0)) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert json.loads(part(value, 1)) == {
        "exp": int(NOW) + 3599,
        "iat": int(NOW),
        "iss": "Google",
        "scope": "kafka",
        "sub": EMAIL,
    }
    assert part(value, 2) == b"ya29.s3cr3t_t0ken"
    assert "=" not in value
    assert token_from(token).value == token.value, "brokers take its characters"
    paths = [each.target for each in metadata.server.requests]
    scope = "https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform"
    assert paths == [f"{ACCOUNT}/email", f"{ACCOUNT}/token?scopes={scope}"]


@pytest.mark.parametrize("part_of_it", ["email", "token"])
def test_a_machine_without_service_account(metadata: MetadataServer, part_of_it: str) -> None:
    setattr(metadata, part_of_it, answer(404, b"<html>404</html>", **FLAVOR))
    refused(
        TokenError,
        f"Google's metadata server at {metadata.server.url}{ACCOUNT}/{part_of_it}"
        " answered with status 404; attach a service account with the role",
    )


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("part_of_it", ["email", "token"])
def test_statuses_that_pass(metadata: MetadataServer, part_of_it: str, status: int) -> None:
    setattr(metadata, part_of_it, answer(status, b"s3cr3t", **FLAVOR))
    refused(TokenEndpointError, f"status {status}; the producer retries")


@pytest.mark.parametrize(
    "body", [b"", b"s3cr3t", b"\xff@s3cr3t\n", b"a@b\r\ns3cr3t", b"@" * 2000], ids=repr
)
def test_an_email_that_is_none(metadata: MetadataServer, body: bytes) -> None:
    metadata.email = answer(200, body, **FLAVOR)
    refused(TokenError, "answered without a service account's email")


def test_another_server_at_that_address(metadata: MetadataServer) -> None:
    metadata.email = answer(200, EMAIL.encode())
    refused(TokenError, "without the header 'Metadata-Flavor: Google'")
    assert len(metadata.server.requests) == 1


@pytest.mark.parametrize(
    "script",
    [
        answer(200, b"s3cr3t", **FLAVOR),
        answer(200, {}, **FLAVOR),
        answer(200, {"access_token": "s3cr3t t"}, **FLAVOR),
        answer(307, b"", Location="http://127.0.0.1/?s3cr3t"),
    ],
)
def test_answers_without_a_token_are_final(metadata: MetadataServer, script: Reply) -> None:
    metadata.token = script
    refused(TokenError, f"{metadata.server.url}{ACCOUNT}/token answered")


def test_not_on_google_cloud(metadata: MetadataServer) -> None:
    metadata.email = b""
    refused(TokenEndpointError, "can't be reached", "is this a machine of Google Cloud?")


def test_a_server_that_hangs(metadata: MetadataServer, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata.token = silence
    with pytest.raises(TokenEndpointError, match="ReadTimeout"):
        replace(identity(), limits=Limits(read=0.05))()


def test_a_token_of_unknown_end_gets_an_hour(metadata: MetadataServer) -> None:
    metadata.token = answer(200, {"access_token": "ya29.x"}, **FLAVOR)
    token = identity()()
    assert token.expires == NOW + 3600
    assert json.loads(part(token.value.reveal(), 1))["exp"] == NOW + 3600


def test_a_provider_can_be_pickled() -> None:
    provider: Callable[[], object] = gcp_token_provider()
    assert pickle.loads(pickle.dumps(provider)) == provider == gcp_token_provider()
