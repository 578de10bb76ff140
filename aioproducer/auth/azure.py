"""Tokens of Microsoft Entra without a secret: for Event Hubs, and for clusters that trust Entra.

Requests to the documented HTTP endpoints use the client of OAuth's token endpoints, because
azure-identity brings msal and requests, and retries for more than a minute inside one call. Its
credentials work as token providers, too.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from aioproducer.auth.http_exchange import (
    DEFAULT_LIMITS,
    Limits,
    MetadataServer,
    own_clock,
    split_url,
)
from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.oauthbearer import Token
from aioproducer.auth.token_endpoint import AssertionFile, ClientCredentials, TokenEndpoint
from aioproducer.errors import ConfigError, TokenError
from aioproducer.foundation.secret import Secret
from aioproducer.model import is_event_hubs

__all__ = ["azure_token_provider"]

_TYPE: Final = "sasl_oauthbearer_metadata_authentication_type"
_PARAMETERS: Final = "sasl_oauthbearer_config"

_IMDS_HOST: Final = "http://169.254.169.254"
_IMDS_PATH: Final = "metadata/identity/oauth2/token"
_IMDS_VERSION: Final = "2018-02-01"
_APP_SERVICE_VERSION: Final = "2019-08-01"
_AUTHORITY: Final = "https://login.microsoftonline.com"
_OF_ALL_ROLES: Final = "/.default"
_TRUE: Final = Secret("true")
_UPDATING: Final = frozenset({404, 410})
"""IMDS answers so while it is being updated, for seconds."""
_OTHERS_WITH_HEADER: Final = {"IDENTITY_SERVER_THUMBPRINT": "Service Fabric"}
_OTHERS_WITHOUT: Final = {
    "IMDS_ENDPOINT": "Azure Arc",
    "MSI_ENDPOINT": "Azure Machine Learning and Cloud Shell",
}
"""Variables of hosts whose endpoints are not asked here, with ``IDENTITY_HEADER`` and without."""


def azure_token_provider(resource: str, *, client_id: str | None = None) -> Callable[[], Token]:
    """Return a token provider for OAUTHBEARER with a managed or workload identity of Azure.

    ``resource`` is the application that the token is for: for Event Hubs
    ``https://NAMESPACE.servicebus.windows.net``, else the application ID URI of the Kafka cluster.
    ``client_id`` chooses a user-assigned identity; by default, the environment variable
    ``AZURE_CLIENT_ID`` does.

    The first available one of these is used, in the order of azure-identity's
    ``DefaultAzureCredential``:

    - workload identity, if ``AZURE_FEDERATED_TOKEN_FILE`` is set (Kubernetes)
    - ``IDENTITY_ENDPOINT`` with ``IDENTITY_HEADER`` (App Service, Functions, Container Apps)
    - the instance metadata service, IMDS (virtual machines)

    The environment is read at each fetch, on the machine that fetches. Providers with equal
    arguments share their token. A provider raises ``TokenError`` if the identity is refused or
    missing, and ``TokenEndpointError`` if the endpoint does not answer.
    """
    return AzureIdentity(resource, client_id)


@dataclass(frozen=True)
class AzureIdentity:
    """The token provider that :func:`azure_token_provider` returns."""

    resource: str
    client_id: str | None = None
    clock: Callable[[], float] = own_clock
    """Seconds since the epoch. A client sets this one and those that follow to its own."""
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    """Gives the context for Entra, which workload identity asks."""
    limits: Limits = DEFAULT_LIMITS

    def __call__(self) -> Token:
        """Ask for a token. Raises TokenError or TokenEndpointError."""
        if _is_set("AZURE_FEDERATED_TOKEN_FILE"):
            return self._of_workload()
        client_id = self._client_id()
        query = {
            "resource": self.resource.removesuffix(_OF_ALL_ROLES),
            **({} if client_id is None else {"client_id": client_id}),
        }
        if _is_set("IDENTITY_ENDPOINT", "IDENTITY_HEADER"):
            _refuse(_OTHERS_WITH_HEADER)
            return self._of_app_service(query)
        _refuse(_OTHERS_WITHOUT)
        host = os.environ.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or _IMDS_HOST
        url = f"{host.rstrip('/')}/{_IMDS_PATH}"
        query = {"api-version": _IMDS_VERSION, **query}
        return AzureImds(_with_query(url, query), self.clock, self.limits)()

    def _client_id(self) -> str | None:
        return self.client_id or os.environ.get("AZURE_CLIENT_ID") or None

    def _of_workload(self) -> Token:
        """Source: Microsoft Entra Workload ID; the file's token is the client's assertion."""
        tenant = os.environ.get("AZURE_TENANT_ID")
        for name, value in (("AZURE_CLIENT_ID", self._client_id()), ("AZURE_TENANT_ID", tenant)):
            if not value:
                raise TokenError(
                    "AZURE_FEDERATED_TOKEN_FILE selects Azure's workload identity, which needs "
                    f"{name}, too: annotate the pod's service account with the client's id"
                )
        if tenant is None or not re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", tenant):
            raise TokenError("AZURE_TENANT_ID is neither the id of a tenant nor one of its domains")
        authority = os.environ.get("AZURE_AUTHORITY_HOST") or _AUTHORITY
        endpoint = TokenEndpoint(
            f"{authority.rstrip('/')}/{tenant}/oauth2/v2.0/token",
            self.clock,
            self.tls,
            self.limits.connect,
            self.limits.read,
            "AZURE_AUTHORITY_HOST",
        )
        scope = f"{self.resource.removesuffix(_OF_ALL_ROLES)}{_OF_ALL_ROLES}"
        file = AssertionFile(Path(os.environ["AZURE_FEDERATED_TOKEN_FILE"]))
        return ClientCredentials(endpoint, self._client_id(), scope=scope, assertion=file)()

    def _of_app_service(self, query: Mapping[str, str]) -> Token:
        url = os.environ["IDENTITY_ENDPOINT"]
        return MetadataServer(
            "Azure's IDENTITY_ENDPOINT",
            _with_query(url, {"api-version": _APP_SERVICE_VERSION, **query}),
            {"X-IDENTITY-HEADER": Secret(os.environ["IDENTITY_HEADER"]), "Metadata": _TRUE},
            "enable a managed identity for this app, and check client_id and resource",
            "is this process still in the app that set this variable?",
            self.clock,
            self.limits,
        ).token()


@dataclass(frozen=True)
class AzureImds:
    """Azure's instance metadata service, with the query that librdkafka takes, too."""

    url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    clock: Callable[[], float] = own_clock
    limits: Limits = DEFAULT_LIMITS

    def __call__(self) -> Token:
        """Ask for a token. Raises TokenError or TokenEndpointError."""
        return MetadataServer(
            "Azure's instance metadata service",
            self.url,
            {"Metadata": _TRUE},
            "assign a managed identity to this virtual machine, and check client_id and resource",
            "is this a virtual machine of Azure? In a pod, set up workload identity instead",
            self.clock,
            self.limits,
            _UPDATING,
        ).token()


def azure_identity_of(sources: LoginSources, parameters: Mapping[str, str]) -> AzureIdentity:
    """The identity by the options. Raises ConfigError if nothing says what the token is for."""
    named = (host.lower().rstrip(".") for host, _ in sources.config.bootstrap_servers)
    resource = parameters.get("resource") or next(
        (f"https://{host}" for host in named if is_event_hubs(host)), None
    )  # as in Microsoft's samples for Java
    if resource is None:
        raise ConfigError(
            f"{_TYPE}='azure' needs {_PARAMETERS}='resource=…', the application ID URI of the"
            " cluster: no name in bootstrap_servers is one of Azure Event Hubs"
        )
    return AzureIdentity(resource, parameters.get("client_id"))


def azure_imds_of(sources: LoginSources, parameters: Mapping[str, str]) -> AzureImds:
    """The server by the options. Raises ConfigError if nothing says what the token is for."""
    url = sources.config.sasl_oauthbearer_token_endpoint_url
    query = parameters.get("query")
    if url is None and query is None:
        raise ConfigError(
            f"{_TYPE}='azure_imds' needs {_PARAMETERS}='query=api-version=2018-02-01&resource=…'"
            " (librdkafka's form), or the whole address as sasl_oauthbearer_token_endpoint_url;"
            f" {_TYPE}='azure' needs neither for Event Hubs"
        )
    url = url or f"{_IMDS_HOST}/{_IMDS_PATH}"
    return AzureImds(url if query is None else f"{url}{'&' if '?' in url else '?'}{query}")


def _is_set(*names: str) -> bool:
    """True if the environment has all of them. No frame holds the environment: it has secrets."""
    return all(os.environ.get(name) for name in names)


def _refuse(others: Mapping[str, str]) -> None:
    for name, host in others.items():
        if _is_set(name):
            raise TokenError(
                f"{name} is set: identities of {host} are not supported here; provide tokens of"
                " azure-identity's ManagedIdentityCredential with sasl_oauthbearer_token_provider"
            )


def _with_query(url: str, query: Mapping[str, str]) -> str:
    parts = split_url(url)
    sign = "&" if parts is not None and parts.query else "?"
    return f"{url}{sign}{urlencode(query)}"
