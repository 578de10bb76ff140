"""The token providers that the documentation gives for clouds, with fakes of their libraries."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import NamedTuple

from aioproducer.auth.oauthbearer import claims_of
from aioproducer.auth.tokens import TokenSource
from tests.support.clock import Clock
from tests.unit.auth.tokens_for_tests import NOW


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
