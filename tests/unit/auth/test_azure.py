"""aioproducer.auth.azure, against servers on loopback that answer as Azure's do."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from aioproducer.auth.azure import AzureIdentity, AzureImds, azure_token_provider
from aioproducer.auth.http_exchange import Limits
from aioproducer.auth.oauthbearer import Token
from aioproducer.auth.tokens import TokenSource
from aioproducer.errors import MissingExtraError, ProducerError, TokenEndpointError, TokenError
from aioproducer.testing.certificates import Authority
from tests.support.clock import Clock
from tests.support.http_server import Reply, Request, Server, answer, serving, silence
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt

HUB = "https://space.servicebus.windows.net"
VARIABLES = (
    "AZURE_FEDERATED_TOKEN_FILE", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_AUTHORITY_HOST",
    "AZURE_POD_IDENTITY_AUTHORITY_HOST", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "IMDS_ENDPOINT",
    "IDENTITY_SERVER_THUMBPRINT", "MSI_ENDPOINT", "MSI_SECRET",
)  # fmt: skip
OF_IMDS = {
    "access_token": "s3cr3t-azure-token",
    "client_id": "client-1",
    "expires_in": "3599",
    "expires_on": str(int(NOW) + 3599),
    "ext_expires_in": "3599",
    "not_before": str(int(NOW) - 1),
    "resource": HUB,
    "token_type": "Bearer",
}
OF_APP_SERVICE = {
    "access_token": "s3cr3t-app-token",
    "expires_on": str(int(NOW) + 86400),
    "resource": HUB,
    "token_type": "Bearer",
    "client_id": "client-1",
}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is none of Azure's; and a proxy of the environment would not answer."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def imds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(answer(200, OF_IMDS)) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"{server.url}/")
        yield server


@pytest.fixture
def app_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(answer(200, OF_APP_SERVICE)) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "s3cr3t-header")
        monkeypatch.setenv("MSI_ENDPOINT", "its old name, which App Service sets as well")
        yield server


def identity(client_id: str | None = None) -> AzureIdentity:
    return AzureIdentity(HUB, client_id, Clock(NOW))


def query_of(request: Request) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request.target).query, strict_parsing=True))


def refused(provider: Callable[[], Token], kind: type[ProducerError], *told: str) -> str:
    """The text of the error; nothing that it keeps alive holds a token or the header."""
    with pytest.raises(kind) as caught:
        provider()
    assert type(caught.value) is kind
    for text in told:
        assert text in str(caught.value)
    assert "s3cr3t" not in everything_in(caught.value)
    return str(caught.value)


def test_imds(imds: Server) -> None:
    token = identity()()
    assert token.value.reveal() == "s3cr3t-azure-token"
    assert token.expires == NOW + 3599
    [request] = imds.requests
    assert request.line.startswith("GET /metadata/identity/oauth2/token?")
    assert request.headers["Metadata"] == "true"
    assert query_of(request) == {"api-version": "2018-02-01", "resource": HUB}


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_an_identity_that_the_user_assigned(
    imds: Server, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("AZURE_CLIENT_ID", "client-1")
    identity("client-1" if how == "argument" else None)()
    assert query_of(imds.requests[0])["client_id"] == "client-1"


def test_a_scope_of_entra_is_a_resource_too(imds: Server) -> None:
    replace(identity(), resource=f"{HUB}/.default")()
    assert query_of(imds.requests[0])["resource"] == HUB


def test_imds_with_a_query_of_librdkafka(imds: Server) -> None:
    query = "api-version=2025-04-07&resource=api://cluster&client_id=client-1"
    url = f"{imds.url}/metadata/identity/oauth2/token?{query}"
    assert AzureImds(url, Clock(NOW))().expires == NOW + 3599
    assert query_of(imds.requests[0]) == {
        "api-version": "2025-04-07", "resource": "api://cluster", "client_id": "client-1",
    }  # fmt: skip


def test_app_service(app_service: Server) -> None:
    token = identity("client-1")()
    assert token.value.reveal() == "s3cr3t-app-token"
    assert token.expires == NOW + 86400
    [request] = app_service.requests
    assert request.line.startswith("GET /msi/token?")
    assert request.headers["X-IDENTITY-HEADER"] == "s3cr3t-header"
    assert query_of(request) == {
        "api-version": "2019-08-01", "resource": HUB, "client_id": "client-1",
    }  # fmt: skip


def test_the_header_of_app_service_rotates(
    app_service: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = identity()
    provider()
    monkeypatch.setenv("IDENTITY_HEADER", "s3cr3t-next")
    provider()
    assert app_service.requests[1].headers["X-IDENTITY-HEADER"] == "s3cr3t-next"


class Workload:
    """Entra on loopback, and a pod's variables and federated token."""

    def __init__(self, server: Server, file: Path, authority: Authority) -> None:
        self.server = server
        self.file = file
        self._context = ssl.create_default_context(cadata=authority.pem)

    def provider(self) -> AzureIdentity:
        return replace(identity(), tls=lambda: self._context)


@pytest.fixture
def workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workload]:
    authority = Authority()
    file = tmp_path / "azure-identity-token"
    file.write_text(jwt({"sub": "system:serviceaccount:default:kafka"}, "s3cr3t"))
    of_entra = {"token_type": "Bearer", "expires_in": 3599, "access_token": "s3cr3t-entra-token"}
    with serving(answer(200, of_entra), tls=authority.issue().server_context()) as server:
        for name, value in {
            "AZURE_FEDERATED_TOKEN_FILE": str(file),
            "AZURE_TENANT_ID": "tenant-1",
            "AZURE_CLIENT_ID": "client-1",
            "AZURE_AUTHORITY_HOST": f"{server.url}/",
            "HTTPS_PROXY": "", "https_proxy": "", "NO_PROXY": "127.0.0.1",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield Workload(server, file, authority)


def test_workload_identity(workload: Workload) -> None:
    token = workload.provider()()
    assert token.value.reveal() == "s3cr3t-entra-token"
    assert token.expires == NOW + 3599
    [request] = workload.server.requests
    assert request.line.startswith("POST /tenant-1/oauth2/v2.0/token HTTP")
    assert request.form == {
        "grant_type": "client_credentials",
        "scope": f"{HUB}/.default",
        "client_id": "client-1",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": workload.file.read_text(),
    }


@pytest.mark.parametrize("tenant", ["..", ".", "a/..", "../evil", "a?b", "%2e%2e", "a b", "a#"])
def test_no_tenant_climbs_out_of_its_place(
    workload: Workload, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_TENANT_ID", tenant)
    with pytest.raises(TokenError, match="AZURE_TENANT_ID is neither the id of a tenant nor one"):
        workload.provider()()
    assert workload.server.requests == []
    monkeypatch.setenv("AZURE_TENANT_ID", "contoso.onmicrosoft.com")
    workload.provider()()


def test_the_federated_token_is_read_at_each_fetch(workload: Workload) -> None:
    provider = workload.provider()
    provider()
    workload.file.write_text(jwt({"sub": "next"}, "s3cr3t"))
    provider()
    assert workload.server.requests[1].form["client_assertion"] == workload.file.read_text()
    workload.file.unlink()
    refused(provider, TokenError, str(workload.file), "No such file")


def test_entra_knows_no_such_federation(workload: Workload) -> None:
    assertion = workload.file.read_text()
    workload.server.script = [
        answer(
            400,
            {"error": "invalid_client", "error_description": f"AADSTS700213: no match {assertion}"},
        )
    ]
    refused(
        workload.provider(),
        TokenError,
        f"{workload.server.url}/tenant-1/oauth2/v2.0/token",
        "status 400: 'invalid_client', 'AADSTS700213: no match ********'",
    )


@pytest.mark.parametrize("missing", ["AZURE_CLIENT_ID", "AZURE_TENANT_ID"])
def test_a_pod_that_is_half_set_up(
    workload: Workload, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(missing)
    refused(workload.provider(), TokenError, f"needs {missing}, too", "service account")


@pytest.mark.parametrize("status", [404, 408, 410, 429, 500, 503, 504])
def test_imds_at_an_update_or_busy(imds: Server, status: int) -> None:
    imds.script = [answer(status, {"error": "busy", "error_description": "try again"})]
    refused(
        identity(),
        TokenEndpointError,
        f"instance metadata service at {imds.url}/metadata/identity/oauth2/token",
        f"status {status}: 'busy', 'try again'; the producer retries",
    )


def test_a_machine_without_identity(imds: Server) -> None:
    imds.script = [
        answer(400, {"error": "invalid_request", "error_description": "Identity not found"})
    ]
    refused(
        identity(),
        TokenError,
        "status 400: 'invalid_request', 'Identity not found'; assign a managed identity",
    )


@pytest.mark.parametrize(
    ("status", "kind"), [(400, TokenError), (403, TokenError), (500, TokenEndpointError)]
)
def test_app_service_refuses(app_service: Server, status: int, kind: type[ProducerError]) -> None:
    app_service.script = [
        answer(status, {"statusCode": status, "message": "No MSI found for s3cr3t-header"})
    ]
    refused(
        identity(), kind, "IDENTITY_ENDPOINT at http://127.0.0.1", "'No MSI found for ********'"
    )


@pytest.mark.parametrize(
    "script",
    [
        answer(200, b"<html>s3cr3t</html>"),
        answer(200, []),
        answer(200, {"error": "s3cr3t"}),
        answer(200, {"access_token": "s3cr3t with a blank"}),
        answer(302, b"", Location="http://127.0.0.1/login?code=s3cr3t"),
        answer(200, b"x" * 2_000_000),
    ],
)
def test_answers_without_a_token_are_final(imds: Server, script: Reply) -> None:
    imds.script = [script]
    refused(identity(), TokenError, "instance metadata service at http://127.0.0.1")


@pytest.mark.parametrize("script", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200"])
def test_answers_that_are_no_http_pass(imds: Server, script: Reply) -> None:
    imds.script = [script]
    refused(
        identity(), TokenEndpointError, "can't be reached", "is this a virtual machine of Azure"
    )


def test_a_server_that_hangs(imds: Server) -> None:
    imds.script = [silence]
    refused(replace(identity(), limits=Limits(read=0.05)), TokenEndpointError, "ReadTimeout")


@pytest.mark.parametrize("variable", ["IMDS_ENDPOINT", "MSI_ENDPOINT"])
def test_hosts_that_are_not_supported(
    imds: Server, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://localhost:40342")
    refused(identity(), TokenError, f"{variable} is set", "azure-identity")
    assert not imds.requests


def test_service_fabric_is_not_supported(
    app_service: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_SERVER_THUMBPRINT", "00")
    refused(identity(), TokenError, "Service Fabric", "azure-identity")
    assert not app_service.requests


@pytest.mark.parametrize("url", ["127.0.0.1", "ftp://127.0.0.1/", "http://[::", "http://h:99999/"])
def test_an_endpoint_that_is_no_address(
    app_service: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_ENDPOINT", url)
    refused(identity(), TokenError, "IDENTITY_ENDPOINT has no address that begins with http://")


async def test_the_event_loop_goes_on_while_imds_hangs(imds: Server) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    [good] = imds.script

    def slow(*_: object) -> Reply:
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(30)
        return good

    imds.script = [slow]
    fetching = asyncio.ensure_future(TokenSource(identity(), clock=Clock(NOW)).token())
    async with asyncio.timeout(30):
        await asked.wait()
    assert not fetching.done()
    go_on.set()
    assert (await fetching).expires == NOW + 3599


def test_a_provider_can_be_pickled_and_shows_no_secret(app_service: Server) -> None:
    provider = azure_token_provider(HUB, client_id="client-1")
    copy = pickle.loads(pickle.dumps(provider))
    assert copy == provider
    assert hash(copy) == hash(provider)
    provider()
    assert b"s3cr3t" not in pickle.dumps(provider)


def test_without_httpx2(imds: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"aioproducer\[oauth\]"):
        identity()()
