"""The token endpoint of OAuth 2, on loopback: clients' secrets, and signed assertions."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.auth import http_exchange
from aioproducer.auth.http_exchange import DEFAULT_LIMITS, HttpRequest, MetadataServer
from aioproducer.auth.token_endpoint import (
    AssertionFile,
    ClientCredentials,
    JwtBearer,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
)
from aioproducer.auth.tokens import TokenSource
from aioproducer.errors import (
    ConfigError,
    MissingExtraError,
    ProducerError,
    TokenEndpointError,
    TokenError,
)
from aioproducer.foundation.secret import Secret
from tests.support.clock import Clock
from tests.support.http_server import Reply, Server, answer, serving, silence, trickling
from tests.unit.auth.tokens_for_tests import NOW, everything_in, jwt

SECRET = "s3cr3t+/ü"
GOOD = answer(200, {"access_token": "token", "expires_in": 60, "scope": "kafka"})


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(GOOD) as running:
        yield running


def endpoint(url: str, **options: Any) -> TokenEndpoint:
    return TokenEndpoint(url, Clock(NOW), **options)


def credentials(url: str, **options: Any) -> ClientCredentials:
    return ClientCredentials(endpoint(url), "me", Secret(SECRET), **options)


class Assertion:
    def create(self) -> Secret:
        return Secret(jwt({"iss": "me"}, "s3cr3t"))


def test_client_credentials(server: Server) -> None:
    token = credentials(server.token_url, scope=" kafka write ")()
    assert token.value.reveal() == "token"
    assert token.expires == NOW + 60
    assert token.scope == "kafka"
    request = server.requests[0]
    assert request.line == "POST /realms/x/token HTTP/1.1"
    assert request.form == {"grant_type": "client_credentials", "scope": "kafka write"}
    assert request.headers["Accept"] == "application/json"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert _basic(request.headers["Authorization"]) == f"me:{SECRET}"


def _basic(header: str | None) -> str:
    kind, _, encoded = (header or "").partition(" ")
    assert kind == "Basic"
    return base64.b64decode(encoded).decode()


def test_id_and_secret_encoded_for_the_header(server: Server) -> None:
    ClientCredentials(endpoint(server.token_url), "a b:c", Secret(SECRET), urlencode_header=True)()
    assert _basic(server.requests[0].headers["Authorization"]) == "a+b%3Ac:s3cr3t%2B%2F%C3%BC"


def test_a_client_assertion_instead_of_a_secret(server: Server) -> None:
    ClientCredentials(endpoint(server.token_url), "me", assertion=Assertion())()
    request = server.requests[0]
    assert request.headers["Authorization"] is None
    assert request.form == {
        "grant_type": "client_credentials",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": jwt({"iss": "me"}, "s3cr3t"),
        "client_id": "me",
    }


def test_jwt_bearer(server: Server) -> None:
    JwtBearer(endpoint(server.token_url), Assertion(), "kafka")()
    request = server.requests[0]
    assert request.headers["Authorization"] is None
    assert request.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "assertion": jwt({"iss": "me"}, "s3cr3t"),
        "scope": "kafka",
    }


@pytest.mark.parametrize(
    ("body", "expires"),
    [
        ({"access_token": jwt({"exp": NOW + 9}), "expires_in": 60}, NOW + 9),
        ({"id_token": "t", "access_token": ""}, None),
        ({"access_token": "t", "expires_in": "60"}, NOW + 60),
        ({"access_token": "t", "expires_in": None}, None),
        ({"access_token": "t", "expires_in": -1}, None),
        ({"access_token": "t", "expires_in": "soon"}, None),
        ({"access_token": "t", "expires_in": 10**400}, None),
    ],
    ids=repr,
)
def test_the_end_of_a_token(server: Server, body: object, expires: float | None) -> None:
    server.script = [answer(201, body)]
    assert credentials(server.token_url)().expires == expires


def refused(provider: Callable[[], object], kind: type[ProducerError], *told: str) -> str:
    """The text of the error; nothing that it keeps alive holds the secret."""
    with pytest.raises(kind) as caught:
        provider()
    assert type(caught.value) is kind
    for text in told:
        assert text in str(caught.value)
    assert "s3cr3t" not in everything_in(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 501])
def test_statuses_that_are_final(server: Server, status: int) -> None:
    server.script = [
        answer(status, {"error": "invalid_client", "error_description": f"{SECRET} is wrong\n"})
    ]
    refused(
        credentials(server.token_url + "?key=s3cr3t"),
        TokenError,
        f"{server.url}/realms/x/token answered with status {status}: "
        "'invalid_client', '******** is wrong\\n'",
    )


@pytest.mark.parametrize("status", [408, 418, 429, 500, 502, 503, 504])
def test_statuses_that_pass(server: Server, status: int) -> None:
    server.script = [answer(status, {"errorCode": "busy", "errorSummary": "try again"})]
    refused(credentials(server.token_url), TokenEndpointError, str(status), "'busy', 'try again'")


@pytest.mark.parametrize("body", [b"", b"s3cr3t" * 100, b"[]", b'{"error": 7}', b'{"error": ['])
def test_an_error_of_another_form_is_not_shown(server: Server, body: bytes) -> None:
    server.script = [answer(401, body)]
    refused(credentials(server.token_url), TokenError, "status 401; check the client's credentials")


def test_an_assertion_that_is_refused_is_not_shown(server: Server) -> None:
    text = Assertion().create().reveal()
    server.script = [answer(400, {"error": "invalid_grant", "error_description": text})]
    refused(
        JwtBearer(endpoint(server.token_url), Assertion()),
        TokenError,
        "'invalid_grant', '********'",
    )


def test_a_redirect_is_not_followed(server: Server) -> None:
    with serving(GOOD) as other:
        server.script = [answer(307, Location=f"{other.token_url}?code=s3cr3t")]
        refused(credentials(server.token_url), TokenError, f"a redirect to '{other.token_url}'")
        assert not other.requests


@pytest.mark.parametrize(
    "script",
    [
        answer(200, b"s3cr3t"),
        answer(200, []),
        answer(200, {}),
        answer(200, {"access_token": 7}),
        answer(200, {"access_token": "s3cr3t t"}),
        answer(200, {"token": "s3cr3t"}),
        answer(200, b"[" * 100_000),
        answer(200, b"\xff\xfe"),
        answer(200, b"x" * 2_000_000),
        answer(200, b"x", Content_Encoding="gzip"),
    ],
)
def test_answers_without_a_token_are_final(server: Server, script: Reply) -> None:
    server.script = [script]
    refused(credentials(server.token_url), TokenError, f"{server.url}/realms/x/token")


def test_an_answer_is_read_up_to_a_mebibyte_only(server: Server) -> None:
    server.script = [answer(200, b"x" * 2_000_000)]
    refused(credentials(server.token_url), TokenError, "sent a response of more than 1048576 bytes")


@pytest.mark.parametrize(
    "script",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000,
    ],
)
def test_answers_that_are_no_http_pass(server: Server, script: Reply) -> None:
    server.script = [script]
    refused(
        credentials(server.token_url),
        TokenEndpointError,
        "can't be reached",
        "the producer retries",
    )


@given(st.binary(max_size=300))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_breaks_the_client(server: Server, body: bytes) -> None:
    server.script = [b"HTTP/1.1 " + body]
    with pytest.raises((TokenError, TokenEndpointError)):
        credentials(server.token_url)()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    refused(credentials(f"http://127.0.0.1:{port}/"), TokenEndpointError, "refused")


def test_a_server_that_says_nothing(server: Server) -> None:
    server.script = [silence]
    slow = ClientCredentials(endpoint(server.token_url, read_timeout=0.05), "me", Secret(SECRET))
    refused(slow, TokenEndpointError, "ReadTimeout")


STATUS = b"HTTP/1.1 200 OK\r\n"
HOSTILE = {
    "status line": trickling(b"HTTP/1.1 200 ", b"o"),
    "a header": trickling(STATUS + b"X-Header: ", b"v"),
    "headers": trickling(STATUS, b"X: v\r\n"),
    "endless 100 Continue": trickling(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "endless 103 Early Hints": trickling(b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
    "body": trickling(STATUS + b"Content-Length: 9999\r\n\r\n", b" "),
    "body without a length": trickling(STATUS + b"Connection: close\r\n\r\n", b" "),
    "chunks": trickling(STATUS + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
}


HEADS = [each for each in HOSTILE if each not in ("body", "body without a length", "chunks")]


@pytest.mark.parametrize(
    ("name", "proxied"), [*((each, False) for each in HOSTILE), *((each, True) for each in HEADS)]
)
def test_an_exchange_that_trickles_ends_by_one_deadline(
    server: Server, name: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's timeouts are for single bytes."""
    monkeypatch.setattr(http_exchange, "_LONGEST", 0.2)
    if proxied:
        monkeypatch.setenv("HTTPS_PROXY", server.url)
    server.script = [HOSTILE[name]]
    url = "https://tokens.example/token" if proxied else server.token_url
    provider = ClientCredentials(endpoint(url), "me", Secret(SECRET))
    refused(provider, TokenEndpointError, "did not complete its response within 0.2 s")
    assert not [each for each in threading.enumerate() if "deadline" in each.name]


def test_a_tls_handshake_that_trickles_ends_by_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_exchange, "_LONGEST", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            trickling(b"\x16\x03\x03\x3f\xff", b"\2")(None, connection)

    with listener:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/token"
        provider = ClientCredentials(endpoint(url), "me", Secret(SECRET))
        refused(provider, TokenEndpointError, "did not complete its response within 0.2 s")
        thread.join()


@pytest.mark.parametrize("script", HOSTILE.values(), ids=HOSTILE)
def test_a_metadata_server_that_trickles_ends_by_the_deadline(
    server: Server, script: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_exchange, "_LONGEST", 0.2)
    server.script = [script]
    metadata = MetadataServer(
        "the server",
        server.token_url,
        {},
        "ask it",
        "look at it",
        Clock(NOW),
        http_exchange.Limits(),
    )
    with pytest.raises(TokenEndpointError, match=r"not complete its response within 0\.2 s; look"):
        metadata.token()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _certificate(tmp_path_factory.mktemp("tls"))


def _certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key in the same file."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def test_tls_is_verified(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(GOOD, tls=context) as server:
        refused(
            credentials(server.token_url), TokenError, "can't be trusted", "ssl_truststore_location"
        )
        assert not server.requests
        trusting = ssl.create_default_context(cafile=str(certificate))
        provider = ClientCredentials(
            endpoint(server.token_url, tls=lambda: trusting), "me", Secret(SECRET)
        )
        assert provider().value.reveal() == "token"


def test_an_address_that_is_not_encrypted_is_refused_unless_it_is_this_machine() -> None:
    endpoint("http://localhost/token")
    endpoint("http://127.0.0.2/token")
    endpoint("http://[::1]:8080/token")
    endpoint("https://idp.example/token")
    with pytest.raises(ConfigError) as caught:
        endpoint("http://idp.example:8080/token?key=s3cr3t")
    assert "http://idp.example:8080/token is not encrypted" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_gets_a_secret_in_the_clear(
    server: Server, name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(GOOD) as proxy:
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv(name, proxy.url)
        token = credentials(server.token_url.replace("127.0.0.1", host))()
        assert token.value.reveal() == "token"
        assert not proxy.requests
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "no_proxy", "asked"),
    [
        (Secret("grant"), "", ["CONNECT localhost:1 HTTP/1.1"]),
        (Secret("grant"), "localhost", []),
        (None, "", []),  # a metadata server, which only this machine reaches
    ],
)
def test_only_a_post_to_https_goes_through_the_proxy_of_the_environment(
    body: Secret | None, no_proxy: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(answer(403)) as proxy:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("NO_PROXY", no_proxy)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        request = HttpRequest("https://localhost:1/token", {}, body)  # nobody listens there
        assert isinstance(
            request.answer(DEFAULT_LIMITS, ssl.create_default_context()), http_exchange.Trouble
        )
        assert [each.line for each in proxy.requests] == asked


@pytest.mark.parametrize(
    "url",
    ["", "idp.example/s3cr3t", "ftp://h/s3cr3t", "https:///s3cr3t", "https://u:s3cr3t@h/",
     "https://h:s3cr3t/", "https://[s3cr3t/"],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match="sasl_oauthbearer_token_endpoint_url") as caught:
        endpoint(url)
    assert "s3cr3t" not in str(caught.value)


def test_client_credentials_without_any() -> None:
    refused(lambda: ClientCredentials(endpoint("https://h/"), "me"), ConfigError, "client_secret")


def test_without_httpx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"aioproducer\[oauth\]"):
        credentials("https://h/")()


def test_equal_settings_are_equal_and_show_nothing() -> None:
    clock = Clock(NOW)
    one, other = (
        ClientCredentials(TokenEndpoint("https://h/", clock), "me", Secret(SECRET))
        for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert "s3cr3t" not in repr(one)


async def test_nothing_of_a_failed_login_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for provider, secret in (
            (credentials(server.token_url), SECRET),
            (JwtBearer(endpoint(server.token_url), Assertion()), Assertion().create().reveal()),
        ):
            server.script = [answer(401, {"error": "no", "error_description": f"is {secret}"})]
            with pytest.raises(TokenError, match=r"'is \*{8}'") as caught:
                await TokenSource(provider, clock=Clock(NOW)).token()
            assert "s3cr3t" not in everything_in(caught.value)
        server.script = [answer(200, {"access_token": "s3cr3t"})]
        await TokenSource(credentials(server.token_url), clock=Clock(NOW)).token()
    assert "s3cr3t" not in caplog.text
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() not in caplog.text


def test_a_request_is_not_logged_and_others_are(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"access_token": "token"}'
    server.script = [
        (
            b"HTTP/1.1 200 OK\r\nSet-Cookie: session=s3cr3t\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )
    ]
    with caplog.at_level(logging.DEBUG):
        credentials(f"{server.token_url}?api_key=s3cr3t")()
        assert not [each.getMessage() for each in caplog.records if each.name.startswith("http")]
        httpx2.post(f"{server.token_url}?of=another")
    assert "of=another" in caplog.text
    assert "httpcore2.http11" in {each.name for each in caplog.records}


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text(jwt({"exp": NOW, "sub": "me"}) + "\n")
    provider = TokenFile(file)
    assert provider().expires == NOW
    file.write_text("other")
    assert provider().value.reveal() == "other"
    file.write_text("s3cr3t but no token")
    refused(provider, TokenError, str(file), "no bearer token")
    file.write_bytes(b"s3cr3t\xff")
    refused(provider, TokenError, str(file))
    file.unlink()
    refused(provider, TokenError, str(file), "No such file")


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def write(path: Path, key: Any, password: bytes | None = None) -> Path:
    encryption = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return path


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def parts(assertion: Secret) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    content, _, signature = assertion.reveal().rpartition(".")
    header, payload = (json.loads(decoded(part)) for part in content.split("."))
    return header, payload, content.encode(), decoded(signature)


def test_rs256(tmp_path: Path) -> None:
    assertion = SignedAssertion(
        write(tmp_path / "key.pem", rsa_key()),
        Clock(NOW),
        claims=(("iss", "me"), ("aud", "idp"), ("sub", "you")),
    ).create()
    header, payload, content, signature = parts(assertion)
    assert header == {"alg": "RS256", "typ": "JWT"}
    now = int(NOW)
    assert payload == {
        "iss": "me", "aud": "idp", "sub": "you", "iat": now, "exp": now + 300, "nbf": now - 60,
    }  # fmt: skip
    rsa_key().public_key().verify(signature, content, padding.PKCS1v15(), hashes.SHA256())


def test_es256_with_a_passphrase(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    file = write(tmp_path / "key.pem", key, b"s3cr3t")
    signed = SignedAssertion(file, Clock(NOW), "es256", Secret("s3cr3t"))
    header, _, content, signature = parts(signed.create())
    assert header["alg"] == "ES256"
    assert len(signature) == 64, "R and S as they are, not DER"
    whole = encode_dss_signature(
        int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    )
    key.public_key().verify(whole, content, ec.ECDSA(hashes.SHA256()))
    assert "s3cr3t" not in repr(signed)


def test_layers_replace_each_other_as_in_kafka(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text(
        json.dumps(
            {"header": {"kid": "k", "alg": "none"}, "payload": {"iss": "file", "exp": 1, "x": [1]}}
        )
    )
    signed = SignedAssertion(
        write(tmp_path / "key.pem", rsa_key()),
        Clock(NOW),
        claims=(("iss", "option"), ("aud", "idp")),
        template_file=template,
        seconds=(10, 0),
        include_jti=True,
    )
    header, payload, _, _ = parts(signed.create())
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "k"}
    assert payload.pop("jti") != parts(signed.create())[1]["jti"]
    now = int(NOW)
    assert payload == {
        "iss": "file", "aud": "idp", "x": [1], "iat": now, "exp": now + 10, "nbf": now,
    }  # fmt: skip
    for wrong in ("[]", "s3cr3t", '{"header": 7}', '{"payload": []}'):
        template.write_text(wrong)
        with pytest.raises(TokenError, match="template") as caught:
            signed.create()
        assert "s3cr3t" not in everything_in(caught.value)


@pytest.mark.parametrize(
    ("key", "password", "algorithm", "passphrase", "told"),
    [
        (rsa_key(), None, "ES256", None, "not contain a key on the curve P-256"),
        (
            ec.generate_private_key(ec.SECP384R1()),
            None,
            "ES256",
            None,
            "not contain a key on the curve P-256",
        ),
        (ec.generate_private_key(ec.SECP256R1()), None, "RS256", None, "not contain an RSA key"),
        (rsa_key(), b"right", "RS256", None, "no passphrase is set"),
        (rsa_key(), b"right", "RS256", Secret("wrong s3cr3t"), "passphrase is wrong"),
    ],
)
def test_keys_that_do_not_fit(
    key: Any,
    password: bytes | None,
    algorithm: str,
    passphrase: Secret | None,
    told: str,
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "key.pem", key, password)
    with pytest.raises(TokenError, match=told) as caught:
        SignedAssertion(file, Clock(NOW), algorithm, passphrase).create()
    everything = everything_in(caught.value)
    assert "s3cr3t" not in everything
    assert "PRIVATE KEY" not in everything
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\xff\x00", b"x" * 1_100_000])
def test_files_that_are_no_key(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    with pytest.raises(TokenError, match=r"key\.pem"):
        SignedAssertion(file, Clock(NOW)).create()


def test_a_key_is_read_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    signed = SignedAssertion(file, Clock(NOW))
    with pytest.raises(TokenError, match="No such file"):
        signed.create()
    write(file, rsa_key())
    signed.create()


def test_an_algorithm_that_kafka_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="RS256 or ES256"):
        SignedAssertion(tmp_path, Clock(NOW), "none")


def test_an_assertion_that_others_make(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text(jwt({"iss": "me"}) + "\n")
    assert AssertionFile(file).create().reveal() == jwt({"iss": "me"})
    file.write_text("s3cr3t")
    with pytest.raises(TokenError, match="contains no JWT") as caught:
        AssertionFile(file).create()
    assert "s3cr3t" not in everything_in(caught.value)
