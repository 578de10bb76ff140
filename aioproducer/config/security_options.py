"""The options of security: TLS, logins (SASL), and OAuth tokens (KIP-768, KIP-1139).

Names and defaults are Kafka's (``org.apache.kafka.common.config.SslConfigs`` and ``SaslConfigs``).
A few names are librdkafka's: Java has these options in the JAAS line alone.
"""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from aioproducer.config.kinds import (
    INT_MAX,
    LONG_MAX,
    Boolean,
    Choice,
    Integer,
    JaasLine,
    Milliseconds,
    Nullable,
    Text,
)
from aioproducer.config.option import Group, Importance, option
from aioproducer.config.secret import Secret
from aioproducer.config.security_kinds import (
    EndpointUrl,
    Extensions,
    Names,
    Number,
    Provider,
    ProviderOption,
    SecretText,
    SslContext,
)

__all__ = [
    "AssertionAlgorithm",
    "SaslMechanism",
    "SaslOptions",
    "StoreType",
    "TlsOptions",
    "TokenOptions",
]

StoreType = Literal["JKS", "PKCS12", "PEM"]
SaslMechanism = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"
]
AssertionAlgorithm = Literal["RS256", "ES256"]

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM
_NAME = Nullable(Text(empty=False))


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TlsOptions:
    """The options of connections with TLS; without effect for the other protocols."""

    ssl_context: Any = option(Nullable(SslContext()), None, Group.TLS, HIGH)
    """An `ssl.SSLContext` of your own, used as it is; no other option of TLS may then be set. It
    can't be pickled."""

    ssl_truststore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the authorities that brokers' certificates are checked against. None: those of
    the system."""

    ssl_truststore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_truststore_location`. With Kafka's default, `JKS`, the file's
    content says whether it is PEM or PKCS#12; a Java keystore itself can't be read here."""

    ssl_truststore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` truststore; PEM has none."""

    ssl_truststore_certificates: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The authorities themselves instead of a file, as PEM text; needs `ssl_truststore_type="PEM"`
    (KIP-651)."""

    ssl_keystore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the client's private key and certificate, for brokers that ask for one. In PEM
    both stand in the same file."""

    ssl_keystore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_keystore_location`. With Kafka's default, `JKS`, the file's
    content says whether it is PEM or PKCS#12; a Java keystore itself can't be read here."""

    ssl_keystore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` keystore; PEM has `ssl_key_password`."""

    ssl_keystore_key: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The client's private key itself instead of a file, as PEM text (PKCS#8); needs
    `ssl_keystore_type="PEM"` and `ssl_keystore_certificate_chain`."""

    ssl_keystore_certificate_chain: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The client's certificate and those between it and its authority, as PEM text, beside
    `ssl_keystore_key`."""

    ssl_key_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of the private key."""

    ssl_endpoint_identification_algorithm: str = option(
        Choice(Literal["https", ""]), "https", Group.TLS
    )
    """`https` checks that a broker's certificate is for the host name that was asked for. An empty
    text switches the check off: whoever has any certificate of a trusted authority can then stand
    in for a broker."""

    ssl_protocol: str = option(
        Choice(Literal["TLSv1.3", "TLSv1.2", "TLS"]), "TLSv1.3", Group.TLS, MEDIUM
    )
    """The highest version of TLS; `TLS` is the highest that there is."""

    ssl_enabled_protocols: tuple[str, ...] = option(
        Names(), ("TLSv1.2", "TLSv1.3"), Group.TLS, MEDIUM
    )
    """The versions of TLS that may be negotiated: `TLSv1.2` and `TLSv1.3`, or one of them."""

    ssl_cipher_suites: tuple[str, ...] = option(Names(), (), Group.TLS)
    """The cipher suites that may be negotiated, by their names in OpenSSL or in the standards.
    Empty: OpenSSL's own choice."""

    ssl_crl_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS)
    """A PEM file of revocation lists that brokers' certificates are checked against (librdkafka's
    name). None checks none."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SaslOptions(TlsOptions):
    """The options of logins."""

    sasl_mechanism: SaslMechanism | None = option(
        Nullable(Choice(SaslMechanism)), None, Group.SASL, MEDIUM, kafka_default="GSSAPI"
    )
    """The kind of login. A SASL protocol needs this option, for Kafka's default is seldom what is
    meant; None is `GSSAPI` where a login of Kerberos is configured."""

    sasl_username: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The user name for `PLAIN` and `SCRAM-…` (librdkafka's name; Java has it in
    `sasl_jaas_config`)."""

    sasl_password: Secret | None = option(Nullable(SecretText()), None, Group.SASL, MEDIUM)
    """The password for `PLAIN` and `SCRAM-…`, beside `sasl_username`."""

    sasl_credentials_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.SASL, MEDIUM
    )
    """Gives user name and password for `PLAIN` and `SCRAM-…` at each login, instead of
    `sasl_username` and `sasl_password`: a callable without arguments, async or not, that returns
    the pair. The import path `package.module:function` instead is a reference that a pickle
    carries."""

    sasl_jaas_config: Secret | None = option(Nullable(JaasLine()), None, Group.SASL, MEDIUM)
    """The JAAS line that Java clients take their credentials from: the login modules of `PLAIN`,
    `SCRAM`, `OAUTHBEARER`, Kerberos and MSK's IAM are known."""

    sasl_kerberos_service_name: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The name of the brokers' principals, for most clusters `kafka`; `GSSAPI` needs it, here or as
    `serviceName` of the JAAS line."""

    sasl_kerberos_principal: str | None = option(_NAME, None, Group.SASL)
    """The client's own principal, for `GSSAPI` (librdkafka's name). None: that of the ticket cache
    or the keytab."""

    sasl_kerberos_keytab: str | None = option(_NAME, None, Group.SASL)
    """The keytab file to log in with for `GSSAPI` (librdkafka's name). None: the ticket cache that
    `kinit` fills."""

    sasl_aws_profile_name: str | None = option(_NAME, None, Group.SASL)
    """The profile of the AWS configuration for `AWS_MSK_IAM`; `awsProfileName` of the JAAS line.
    None: AWS's own chain of credentials."""

    sasl_aws_role_arn: str | None = option(_NAME, None, Group.SASL)
    """The role to take on for `AWS_MSK_IAM`; `awsRoleArn` of the JAAS line."""

    sasl_aws_role_session_name: str | None = option(_NAME, None, Group.SASL)
    """The name of the role's session; `awsRoleSessionName` of the JAAS line."""

    sasl_aws_role_external_id: str | None = option(_NAME, None, Group.SASL)
    """The external id that the role's owner asks for; `awsRoleExternalId` of the JAAS line."""

    sasl_aws_sts_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the service that is asked for the role; `awsStsRegion` of the JAAS line."""

    sasl_aws_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the cluster. None reads it from the brokers' host names; name it where those
    are of a domain of your own."""

    sasl_login_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's own are known and need nothing; any other is refused by name."""

    sasl_login_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's `OAuthBearerLoginCallbackHandler` is known. Any other is refused by
    name, unless `sasl_oauthbearer_token_provider` stands in for it."""

    sasl_client_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. `software.amazon.msk.auth.iam.IAMClientCallbackHandler` and Kafka's own are
    known; any other is refused by name."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TokenOptions(SaslOptions):
    """The options of tokens: their sources, and the times to fetch them anew."""

    sasl_oauthbearer_token_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.TOKENS, MEDIUM
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
    """Bound on the answer of the token endpoint, or of `sasl_credentials_provider`; None is 10
    seconds."""

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
