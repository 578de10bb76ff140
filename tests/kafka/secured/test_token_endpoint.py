"""Tokens of a real OAuth 2 server, by a client's secret and by its signed assertion.

The grant JWT bearer is not among them: this server wants a client's secret beside the assertion,
which Kafka's clients do not send.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from aioproducer.auth.oauthbearer import claims_of
from aioproducer.auth.token_endpoint import ClientCredentials, SignedAssertion, TokenEndpoint
from aioproducer.auth.tokens import TokenSource
from aioproducer.config.secret import Secret
from aioproducer.testing.oauth2_server import OAuth2Server
from tests.kafka.secured.secured_kafka import TOKEN_SECONDS

pytestmark = pytest.mark.kafka


async def test_client_credentials(oauth2_server: OAuth2Server) -> None:
    endpoint = TokenEndpoint(oauth2_server.token_url, time.time)
    provider = ClientCredentials(endpoint, "me", Secret("secret"), "kafka")
    token = await TokenSource(provider, clock=time.time).token()
    assert token.principal == "me"
    claims = claims_of(token.value)
    assert claims["iss"] == oauth2_server.issuer_url
    assert claims["aud"] == "kafka"
    assert token.expires == claims["exp"] == claims["iat"] + TOKEN_SECONDS


async def test_a_client_assertion(oauth2_server: OAuth2Server, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    file = tmp_path / "key.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    claims = (("iss", "me"), ("sub", "me"), ("aud", oauth2_server.token_url))
    assertion = SignedAssertion(file, time.time, claims=claims, seconds=(60, 0), include_jti=True)
    endpoint = TokenEndpoint(oauth2_server.token_url, time.time)
    provider = ClientCredentials(endpoint, "me", scope="kafka", assertion=assertion)
    token = await TokenSource(provider, clock=time.time).token()
    assert claims_of(token.value)["iss"] == oauth2_server.issuer_url
    assert token.expires is not None
