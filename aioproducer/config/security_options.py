"""The options of security: TLS, logins (SASL), and OAuth tokens (KIP-768, KIP-1139).

Names and defaults are Kafka's (``org.apache.kafka.common.config.SslConfigs`` and ``SaslConfigs``).
A few names are librdkafka's: Java has these options only in the JAAS line.
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
    "MetadataAuthenticationType",
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
MetadataAuthenticationType = Literal["none", "azure", "azure_imds", "aws_iam", "gcp"]

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM
_NAME = Nullable(Text(empty=False))


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TlsOptions:
    """The options of connections with TLS. Together with other protocols they are an error, but for
    the truststore that the certificate of a token endpoint is checked against."""

    ssl_context: Any = option(Nullable(SslContext()), None, Group.TLS, HIGH)
    """Your own `ssl.SSLContext`, used unchanged. It excludes all other TLS options and can't be
    pickled."""

    ssl_truststore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the certificate authorities (CAs) that you trust. None uses the system's
    CAs."""

    ssl_truststore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_truststore_location`. With Kafka's default, `JKS`, the format (PEM or
    PKCS#12) is detected from the content. Java keystores can't be read."""

    ssl_truststore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` truststore; PEM has none."""

    ssl_truststore_certificates: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The CAs as PEM text instead of a file; requires `ssl_truststore_type="PEM"` (KIP-651)."""

    ssl_keystore_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS, HIGH)
    """The file with the client's private key and certificate, for brokers that require one. A PEM
    file contains both."""

    ssl_keystore_type: StoreType = option(Choice(StoreType), "JKS", Group.TLS, MEDIUM)
    """The format of `ssl_keystore_location`. With Kafka's default, `JKS`, the format (PEM or
    PKCS#12) is detected from the content. Java keystores can't be read."""

    ssl_keystore_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of a `PKCS12` keystore. For PEM use `ssl_key_password`."""

    ssl_keystore_key: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The client's private key as PEM text (PKCS#8) instead of a file; requires
    `ssl_keystore_type="PEM"` and `ssl_keystore_certificate_chain`."""

    ssl_keystore_certificate_chain: Secret | None = option(
        Nullable(SecretText()), None, Group.TLS, HIGH
    )
    """The client's certificate with its intermediate certificates, as PEM text; goes with
    `ssl_keystore_key`."""

    ssl_key_password: Secret | None = option(Nullable(SecretText()), None, Group.TLS, HIGH)
    """The password of the private key."""

    ssl_endpoint_identification_algorithm: str = option(
        Choice(Literal["https", ""]), "https", Group.TLS
    )
    """`https` checks that a broker's certificate matches the host name of the connection. An empty
    string disables the check: then anyone with a certificate from a trusted CA can impersonate a
    broker."""

    ssl_protocol: str = option(
        Choice(Literal["TLSv1.3", "TLSv1.2", "TLS"]), "TLSv1.3", Group.TLS, MEDIUM
    )
    """The highest version of TLS to use; `TLS` is the highest available."""

    ssl_enabled_protocols: tuple[str, ...] = option(
        Names(), ("TLSv1.2", "TLSv1.3"), Group.TLS, MEDIUM
    )
    """The versions of TLS that can be negotiated: `TLSv1.2` and `TLSv1.3`, or one of them."""

    ssl_cipher_suites: tuple[str, ...] = option(Names(), (), Group.TLS)
    """The cipher suites that can be negotiated, by their OpenSSL or standard names. Empty uses
    OpenSSL's defaults."""

    ssl_crl_location: str | None = option(Nullable(Text(empty=False)), None, Group.TLS)
    """A PEM file with revocation lists for the brokers' certificates (librdkafka's name). None
    checks no list."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class SaslOptions(TlsOptions):
    """The options of logins."""

    sasl_mechanism: SaslMechanism | None = option(
        Nullable(Choice(SaslMechanism)), None, Group.SASL, MEDIUM, kafka_default="GSSAPI"
    )
    """The login mechanism. SASL protocols require this option, because Kafka's default is rarely
    what you want; None is `GSSAPI` if a Kerberos login is configured."""

    sasl_username: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The user name for `PLAIN` and `SCRAM-…` (librdkafka's name; in Java part of
    `sasl_jaas_config`)."""

    sasl_password: Secret | None = option(Nullable(SecretText()), None, Group.SASL, MEDIUM)
    """The password for `PLAIN` and `SCRAM-…`; goes with `sasl_username`."""

    sasl_credentials_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.SASL, MEDIUM
    )
    """Provides user name and password for `PLAIN` and `SCRAM-…` at every login, instead of
    `sasl_username` and `sasl_password`: a callable without arguments, async or not, that returns
    the pair. Use an import path, `package.module:function`, if the configuration is pickled."""

    sasl_jaas_config: Secret | None = option(Nullable(JaasLine()), None, Group.SASL, MEDIUM)
    """The JAAS line from which Java clients take their credentials. Supported are the login modules
    of `PLAIN`, `SCRAM`, `OAUTHBEARER`, Kerberos and MSK's IAM."""

    sasl_kerberos_service_name: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """The service name in the brokers' principals, usually `kafka`. `GSSAPI` requires it, here or
    as `serviceName` in the JAAS line."""

    sasl_kerberos_principal: str | None = option(_NAME, None, Group.SASL)
    """The client's own principal for `GSSAPI` (librdkafka's name). None uses the one in the ticket
    cache or keytab."""

    sasl_kerberos_keytab: str | None = option(_NAME, None, Group.SASL)
    """The keytab file for `GSSAPI` (librdkafka's name). None uses the ticket cache that `kinit`
    fills."""

    sasl_aws_profile_name: str | None = option(_NAME, None, Group.SASL)
    """The AWS configuration profile for `AWS_MSK_IAM`; `awsProfileName` in the JAAS line. None uses
    the default credential chain of AWS."""

    sasl_aws_role_arn: str | None = option(_NAME, None, Group.SASL)
    """The role to assume for `AWS_MSK_IAM`; `awsRoleArn` in the JAAS line."""

    sasl_aws_role_session_name: str | None = option(_NAME, None, Group.SASL)
    """The session name for the role; `awsRoleSessionName` in the JAAS line."""

    sasl_aws_role_external_id: str | None = option(_NAME, None, Group.SASL)
    """The external id that the role's owner requires; `awsRoleExternalId` in the JAAS line."""

    sasl_aws_sts_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the STS service that issues the role's credentials; `awsStsRegion` in the JAAS
    line."""

    sasl_aws_region: str | None = option(_NAME, None, Group.SASL)
    """The region of the cluster. None takes it from the brokers' host names; set it if you use your
    own domain for the brokers."""

    sasl_login_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's own classes are accepted and need nothing else. Any other class is
    refused with its name."""

    sasl_login_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. Kafka's `OAuthBearerLoginCallbackHandler` is accepted. Any other class is
    refused with its name, unless `sasl_oauthbearer_token_provider` replaces it."""

    sasl_client_callback_handler_class: str | None = option(_NAME, None, Group.SASL, MEDIUM)
    """A Java class. `software.amazon.msk.auth.iam.IAMClientCallbackHandler` and Kafka's own classes
    are accepted. Any other class is refused with its name."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class TokenOptions(SaslOptions):
    """The options of OAuth tokens: their sources, and when to renew them."""

    sasl_oauthbearer_token_provider: ProviderOption | None = option(
        Nullable(Provider()), None, Group.TOKENS, MEDIUM
    )
    """Provides tokens: a callable without arguments, async or not. Use an import path,
    `package.module:function`, if the configuration is pickled (for Spark's executors, for
    example)."""

    sasl_oauthbearer_token_endpoint_url: str | None = option(
        Nullable(EndpointUrl()), None, Group.TOKENS, MEDIUM
    )
    """The identity provider's token endpoint (`https://…`), or a file that holds a token
    (`file:///…`). An `http://` address is refused unless it is this machine's own."""

    sasl_oauthbearer_metadata_authentication_type: MetadataAuthenticationType = option(
        Choice(MetadataAuthenticationType), "none", Group.TOKENS, MEDIUM
    )
    """Gets tokens without a secret, with the identity of this machine or pod (librdkafka's name).
    `azure` asks workload identity, App Service or the instance metadata service (IMDS),
    `azure_imds` only IMDS, `aws_iam` AWS STS, `gcp` Google's metadata server. For Amazon MSK use
    `sasl_mechanism="AWS_MSK_IAM"`."""

    sasl_oauthbearer_config: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The parameters of `sasl_oauthbearer_metadata_authentication_type`, as `key=value,key=value`
    (librdkafka's name). For `azure`: `resource`, `client_id`. For `azure_imds`: `query`. For
    `aws_iam`: `region`, `audience`, `duration_seconds`, `signing_algorithm`, `sts_endpoint`,
    `tag_NAME`."""

    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The client id for the token endpoint; `clientId` in the JAAS line."""

    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        Nullable(SecretText()), None, Group.TOKENS, MEDIUM
    )
    """The client secret for the token endpoint; `clientSecret` in the JAAS line."""

    sasl_oauthbearer_scope: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The scope to request for the token; `scope` in the JAAS line."""

    sasl_oauthbearer_extensions: tuple[tuple[str, str], ...] = option(
        Extensions(), (), Group.TOKENS
    )
    """Names and values to send to the broker with the token, such as Confluent Cloud's
    `logicalCluster` and `identityPoolId` (librdkafka's name); `extension_…` in the JAAS line."""

    sasl_oauthbearer_header_urlencode: bool = option(Boolean(), False, Group.TOKENS)
    """URL-encode client id and secret in the request header, as RFC 6749 specifies."""

    sasl_oauthbearer_jwt_retriever_class: str = option(
        Text(empty=False),
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        Group.TOKENS,
        MEDIUM,
    )
    """How to get a token, as one of Kafka's class names: `ClientCredentialsJwtRetriever`,
    `JwtBearerJwtRetriever`, `FileJwtRetriever`; the default reads the file of a `file:` URL, and
    uses client credentials otherwise."""

    sasl_oauthbearer_assertion_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A file with an assertion that another program signs and renews. All other assertion options
    are then ignored."""

    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        _NAME, None, Group.TOKENS, MEDIUM
    )
    """The PEM file with the private key that signs assertions."""

    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        Nullable(SecretText()), None, Group.TOKENS, MEDIUM
    )
    """The password of that private key."""

    sasl_oauthbearer_assertion_algorithm: AssertionAlgorithm = option(
        Choice(AssertionAlgorithm), "RS256", Group.TOKENS, MEDIUM
    )
    """The algorithm that signs assertions."""

    sasl_oauthbearer_assertion_template_file: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """A JSON file with headers and claims for every assertion."""

    sasl_oauthbearer_assertion_claim_aud: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `aud` (audience) of assertions."""

    sasl_oauthbearer_assertion_claim_iss: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `iss` (issuer) of assertions."""

    sasl_oauthbearer_assertion_claim_sub: str | None = option(_NAME, None, Group.TOKENS, MEDIUM)
    """The claim `sub` (subject) of assertions."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(Integer(0, 86400), 300, Group.TOKENS)
    """How long an assertion is valid."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(Integer(0, 3600), 60, Group.TOKENS)
    """How long before its creation an assertion is already valid, to allow for clock
    differences."""

    sasl_oauthbearer_assertion_claim_jti_include: bool = option(
        Boolean(), False, Group.TOKENS, MEDIUM
    )
    """Give every assertion a unique id (claim `jti`)."""

    sasl_login_connect_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """The time limit for connecting to the token endpoint."""

    sasl_login_read_timeout_ms: int | None = option(
        Nullable(Milliseconds(0, INT_MAX)), None, Group.TOKENS
    )
    """The time limit for the response of the token endpoint or of `sasl_credentials_provider`; None
    is 10 seconds."""

    sasl_login_retry_backoff_ms: int = option(Milliseconds(0, LONG_MAX), 100, Group.TOKENS)
    """The wait before the token endpoint is asked again. Doubles with every failure."""

    sasl_login_retry_backoff_max_ms: int = option(Milliseconds(0, LONG_MAX), 10000, Group.TOKENS)
    """The maximum wait before the token endpoint is asked again."""

    sasl_login_refresh_window_factor: float = option(Number(0.5, 1.0), 0.8, Group.TOKENS)
    """The fraction of a token's lifetime after which it is renewed."""

    sasl_login_refresh_window_jitter: float = option(Number(0.0, 0.25), 0.05, Group.TOKENS)
    """The maximum fraction of a token's lifetime that is added at random, so that clients don't all
    renew at once."""

    sasl_login_refresh_min_period_seconds: int = option(Integer(0, 900), 60, Group.TOKENS)
    """The minimum time between two renewals, unless the token expires earlier."""

    sasl_login_refresh_buffer_seconds: int = option(Integer(0, 3600), 300, Group.TOKENS)
    """The minimum time between a token's renewal and its expiry, if its lifetime allows."""
