"""The options of OAuth tokens (``OAUTHBEARER``: KIP-768, KIP-1139), with Kafka's names and
defaults."""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aioproducer.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Choice,
    Integer,
    Milliseconds,
    Nullable,
    Text,
)
from aioproducer.config.option import Group, Importance, option
from aioproducer.config.sasl_options import SaslOptions
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import (
    EndpointUrl,
    Extensions,
    Number,
    SecretText,
    TokenProvider,
    TokenProviderOption,
)

__all__ = ["AssertionAlgorithm", "TokenOptions"]

AssertionAlgorithm = Literal["RS256", "ES256"]

MEDIUM = Importance.MEDIUM
_NAME = Nullable(Text(empty=False))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TokenOptions(SaslOptions):
    """The options of tokens: their sources, and the times to fetch them anew."""

    sasl_oauthbearer_token_provider: TokenProviderOption | None = option(
        Nullable(TokenProvider()), None, Group.TOKENS, MEDIUM
    )
    """Gives tokens: a callable without arguments, async or not. The import path
    `package.module:function` instead is a reference that a pickle (to Spark's executors, say)
    carries."""

    sasl_oauthbearer_token_endpoint_url: str | None = option(
        Nullable(EndpointUrl()), None, Group.TOKENS, MEDIUM
    )
    """The identity provider's token endpoint (`https://…`), or a file that holds a token
    (`file:///…`)."""

    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The client's id at the token endpoint; `clientId` of the JAAS line."""

    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        Nullable(SecretText()), None, Group.TOKENS, MEDIUM
    )
    """The client's secret at the token endpoint; `clientSecret` of the JAAS line."""

    sasl_oauthbearer_scope: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The scope that a token is asked for; `scope` of the JAAS line."""

    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...] = option(
        Extensions(), (), Group.TOKENS
    )
    """Names and values that go to the broker beside the token, for instance Confluent Cloud's
    `logicalCluster` and `identityPoolId` (librdkafka's name); `extension_…` of the JAAS line."""

    sasl_oauthbearer_header_urlencode: bool = option(Boolean(), False, Group.TOKENS)
    """Client id and secret are URL-encoded in the header of the request, as RFC 6749 has it."""

    sasl_oauthbearer_jwt_retriever_class: str = option(
        Text(empty=False),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        Group.TOKENS,
        MEDIUM,
    )
    """The way to get a token, by Kafka's class name: `ClientCredentialsJwtRetriever`,
    `JwtBearerJwtRetriever`, `FileJwtRetriever`; the default takes the file for a `file:` URL, else
    client credentials."""

    sasl_oauthbearer_assertion_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A file with an assertion that somebody else has signed and renews. No other option of
    assertions counts beside it."""

    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The PEM file of the private key that assertions are signed with."""

    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        Nullable(SecretText()), None, Group.TOKENS, MEDIUM
    )
    """The password of that private key."""

    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm = option(
        Choice(AssertionAlgorithm), "RS256", Group.TOKENS, MEDIUM
    )
    """The algorithm that assertions are signed with."""

    sasl_oauthbearer_assertion_template_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A JSON file with headers and claims that every assertion has."""

    sasl_oauthbearer_assertion_claim_aud: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `aud` (audience) of assertions."""

    sasl_oauthbearer_assertion_claim_iss: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `iss` (issuer) of assertions."""

    sasl_oauthbearer_assertion_claim_sub: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `sub` (subject) of assertions."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(Integer(0, 86400), 300, Group.TOKENS)
    """The time for which an assertion is valid."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(Integer(0, 3600), 60, Group.TOKENS)
    """The time before an assertion's making from which it is valid, for clocks that differ."""

    sasl_oauthbearer_assertion_claim_jti_include: bool = option(
        Boolean(), False, Group.TOKENS, MEDIUM
    )
    """Each assertion has an id of its own (claim `jti`)."""

    sasl_login_connect_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """Bound on connecting to the token endpoint."""

    sasl_login_read_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """Bound on the token endpoint's answer."""

    sasl_login_retry_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 100, Group.TOKENS)
    """Wait before the token endpoint is asked again; doubles with each failure."""

    sasl_login_retry_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 10000, Group.TOKENS)
    """The longest wait before the token endpoint is asked again."""

    sasl_login_refresh_window_factor: float = option(Number(0.5, 1.0), 0.8, Group.TOKENS)
    """The part of a token's lifetime after which it is fetched anew."""

    sasl_login_refresh_window_jitter: float = option(Number(0.0, 0.25), 0.05, Group.TOKENS)
    """The part of a token's lifetime that is added at random, so that clients don't all ask at
    once."""

    sasl_login_refresh_min_period_seconds: int = option(Integer(0, 900), 60, Group.TOKENS)
    """The least time between two fetches, unless the token ends before."""

    sasl_login_refresh_buffer_seconds: int = option(Integer(0, 3600), 300, Group.TOKENS)
    """The least time between a token's renewal and its end, if its lifetime allows."""
