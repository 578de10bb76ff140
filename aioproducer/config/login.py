"""The logins that a configuration can ask for: frozen values, one class for each kind.

:func:`aioproducer.config.configured_login.login_of` makes them; ``auth/`` makes mechanisms of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import ProviderOption

__all__ = [
    "AssertionSettings",
    "AssertionFileSettings",
    "AwsLogin",
    "AwsToken",
    "AwsWebIdentityToken",
    "AzureImdsToken",
    "AzureToken",
    "ClientCredentialsSettings",
    "GcpToken",
    "JwtBearerSettings",
    "KerberosLogin",
    "Login",
    "OAuthLogin",
    "PlainLogin",
    "ProvidedLogin",
    "ProvidedToken",
    "ScramLogin",
    "SignedAssertionSettings",
    "TokenFileSettings",
    "TokenSettings",
]


@dataclass(frozen=True, slots=True)
class PlainLogin:
    """``PLAIN``: user name and password go over the connection."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class ScramLogin:
    """``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: Secret
    token_auth: bool = False
    """The user name is the id of a delegation token, the password its HMAC (KIP-48)."""


@dataclass(frozen=True, slots=True)
class ProvidedLogin:
    """``PLAIN`` or ``SCRAM-…`` with the credentials that the user's own code provides."""

    mechanism: str
    provider: ProviderOption
    token_auth: bool = False


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """``GSSAPI``: by a keytab, else by the ticket cache."""

    service_name: str
    principal: str | None = None
    """The client's own principal; None: that of the cache or the keytab."""
    keytab: str | None = None
    ticket_cache: str | None = None
    """The ticket cache; None: that of this process's environment."""


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """``AWS_MSK_IAM``; by default with AWS's own chain of credentials."""

    region: str | None = None
    profile_name: str | None = None
    role_arn: str | None = None
    role_session_name: str | None = None
    role_external_id: str | None = None
    role_access_key_id: str | None = None
    """The key that asks for the role, instead of the chain's."""
    role_secret_access_key: Secret | None = None
    role_session_token: Secret | None = None
    sts_region: str | None = None


@dataclass(frozen=True, slots=True)
class ProvidedToken:
    """Tokens that the user's own code provides."""

    provider: ProviderOption


@dataclass(frozen=True, slots=True)
class TokenFileSettings:
    """Tokens that another program writes into a file."""

    path: str


@dataclass(frozen=True, slots=True)
class AssertionFileSettings:
    """Signed assertions that another program writes into a file."""

    path: str


@dataclass(frozen=True, slots=True)
class SignedAssertionSettings:
    """Assertions that are signed here (KIP-1139)."""

    private_key_file: str
    private_key_passphrase: Secret | None
    algorithm: str
    template_file: str | None
    audience: str | None
    issuer: str | None
    subject: str | None
    expires_seconds: int
    not_before_seconds: int
    with_id: bool


AssertionSettings: TypeAlias = AssertionFileSettings | SignedAssertionSettings


@dataclass(frozen=True, slots=True)
class ClientCredentialsSettings:
    """The grant ``client_credentials``: with a secret, or with an assertion instead of it."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    client_id: str | None
    client_secret: Secret | None
    scope: str | None
    header_urlencode: bool
    assertion: AssertionSettings | None = None


@dataclass(frozen=True, slots=True)
class JwtBearerSettings:
    """The grant ``jwt-bearer`` (RFC 7523)."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    scope: str | None
    assertion: AssertionSettings


@dataclass(frozen=True, slots=True)
class AwsToken:
    """Tokens for Amazon MSK, made of AWS credentials."""

    credentials: AwsLogin


@dataclass(frozen=True, slots=True)
class AwsWebIdentityToken:
    """Tokens of AWS STS, for brokers that trust AWS as their identity provider."""

    region: str
    audience: str
    duration_seconds: int
    signing_algorithm: str
    tags: tuple[tuple[str, str], ...] = ()
    sts_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class AzureToken:
    """Tokens of Microsoft Entra for a managed or workload identity."""

    resource: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class AzureImdsToken:
    """Tokens of Azure's instance metadata service, by a query of the user's own."""

    url: str = field(repr=False)
    """Not shown: its query may hold a key."""


@dataclass(frozen=True, slots=True)
class GcpToken:
    """Tokens of Google's metadata server, in the form that its Kafka brokers take."""


TokenSettings: TypeAlias = (
    ProvidedToken
    | TokenFileSettings
    | ClientCredentialsSettings
    | JwtBearerSettings
    | AwsToken
    | AwsWebIdentityToken
    | AzureToken
    | AzureImdsToken
    | GcpToken
)


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """``OAUTHBEARER``. Timeouts and the window of refreshes are options of their own."""

    source: TokenSettings
    extensions: tuple[tuple[str, str], ...] = ()


Login: TypeAlias = PlainLogin | ScramLogin | ProvidedLogin | KerberosLogin | AwsLogin | OAuthLogin
