"""The TLS contexts and the SASL mechanism that a configuration asks for."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from aioproducer.auth.aws_credentials import AwsOptions, region_of
from aioproducer.auth.aws_msk_iam import AwsMskIam, msk_token_provider
from aioproducer.auth.aws_web_identity import AwsWebIdentity
from aioproducer.auth.azure import AzureIdentity, AzureImds
from aioproducer.auth.gcp import GcpIdentity
from aioproducer.auth.gssapi import Gssapi
from aioproducer.auth.http_exchange import Limits
from aioproducer.auth.mechanism import Mechanism
from aioproducer.auth.oauthbearer import OAuthBearer, RefreshRules
from aioproducer.auth.plain import Plain
from aioproducer.auth.providers import ProvidedCredentials, Provider, RereadMechanism
from aioproducer.auth.scram import Scram
from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.token_endpoint import (
    AssertionFile,
    ClientCredentials,
    JwtBearer,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
    endpoint_tls,
)
from aioproducer.auth.tokens import TokenSource, identity_of, shared_source
from aioproducer.config import ProducerConfig, Secret, login
from aioproducer.config.kinds import ProviderOption
from aioproducer.config.login import login_of
from aioproducer.errors import ConfigError
from aioproducer.foundation.runtime.threads import Load

__all__ = ["loads_of", "mechanism_of", "tls_of"]

_ENDPOINT_TIMEOUT: Final = 10.0
"""Seconds, as in Kafka, whose defaults of ``sasl.login.*.timeout.ms`` are null."""


def tls_of(config: ProducerConfig) -> TlsContexts | None:
    """The source of each connection's TLS context; None: plain text.

    Raises:
        ConfigError: options of TLS contradict each other.
    """
    if config.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    reread = (lambda: _tls_options(config.reread())) if config.references else None
    return TlsContexts(_tls_options(config), reread=reread)


def _tls_options(config: ProducerConfig) -> TlsOptions:
    return TlsOptions(
        context=config.ssl_context,
        keystore_type=config.ssl_keystore_type,
        keystore_location=config.ssl_keystore_location,
        keystore_password=config.ssl_keystore_password,
        keystore_key=config.ssl_keystore_key,
        keystore_certificate_chain=_revealed(config.ssl_keystore_certificate_chain),
        key_password=config.ssl_key_password,
        truststore_type=config.ssl_truststore_type,
        truststore_location=config.ssl_truststore_location,
        truststore_password=config.ssl_truststore_password,
        truststore_certificates=_revealed(config.ssl_truststore_certificates),
        endpoint_identification_algorithm=config.ssl_endpoint_identification_algorithm,
        protocol=config.ssl_protocol,
        enabled_protocols=config.ssl_enabled_protocols,
        cipher_suites=config.ssl_cipher_suites,
        crl_location=config.ssl_crl_location,
    )


def _revealed(certificates: Secret | None) -> str | None:
    """Certificates are no secret; Kafka's option has the type of one."""
    return None if certificates is None else certificates.reveal()


def mechanism_of(config: ProducerConfig, clock: Callable[[], float]) -> Mechanism | None:
    """The SASL mechanism with its credentials; None: no login.

    ``clock`` gives seconds since the epoch (``time.time``).

    Raises:
        ConfigError: credentials are missing, or can't be used.
        MissingExtraError: the mechanism needs an extra that is not installed.
    """

    def make(config: ProducerConfig) -> Mechanism | None:
        found = login_of(config)
        return None if found is None else _mechanism(found, config, clock)

    made = make(config)
    return RereadMechanism(config, made, make) if made and config.references else made


def _mechanism(asked: login.Login, config: ProducerConfig, clock: Callable[[], float]) -> Mechanism:
    match asked:
        case login.PlainLogin(username, password):
            return _password_mechanism("PLAIN", username, password)
        case login.ScramLogin(mechanism, username, password, token_auth):
            return _password_mechanism(mechanism, username, password, token_auth=token_auth)
        case login.KerberosLogin(service_name, principal, keytab, ticket_cache):
            return Gssapi(
                service_name, principal=principal, keytab=keytab, ticket_cache=ticket_cache
            )
        case login.AwsLogin() as aws:
            return AwsMskIam(aws.region, _aws_options(aws))
        case login.OAuthLogin(source, extensions):
            source = _of_region(source, config)
            return OAuthBearer(_tokens(source, config, clock), dict(extensions))
        case login.ProvidedLogin(mechanism, provider, token_auth):
            return ProvidedCredentials(
                mechanism,
                _imported("sasl_credentials_provider", provider),
                lambda username, password: _password_mechanism(
                    mechanism, username, password, token_auth=token_auth
                ),
                timeout=_seconds(config.sasl_login_read_timeout_ms),
            )


def _password_mechanism(
    mechanism: str, username: str, password: Secret, *, token_auth: bool = False
) -> Mechanism:
    if mechanism == "PLAIN":
        return Plain(username, password)
    return Scram(
        mechanism, username, password, tokenauth=token_auth, saslprep=False
    )  # as Kafka's tools and brokers have it


def _aws_options(aws: login.AwsLogin) -> AwsOptions:
    named = {} if aws.role_session_name is None else {"role_session_name": aws.role_session_name}
    key_id = aws.role_access_key_id
    return AwsOptions(
        profile=aws.profile_name,
        role_arn=aws.role_arn,
        role_external_id=aws.role_external_id,
        sts_region=aws.sts_region,
        role_access_key_id=None if key_id is None else Secret(key_id),
        role_secret_access_key=aws.role_secret_access_key,
        role_session_token=aws.role_session_token,
        **named,
    )


def _of_region(source: login.TokenSettings, config: ProducerConfig) -> login.TokenSettings:
    """A token of AWS is good for one region: by default that of the brokers' names."""
    if not isinstance(source, login.AwsToken) or source.credentials.region is not None:
        return source
    named = [region_of(host) for host, _ in config.bootstrap_servers]
    region = next((each for each in named if each is not None), None)
    if region is None:
        raise ConfigError(
            "sasl_aws_region is required for AWS tokens: no name in bootstrap_servers contains a "
            "region"
        )
    return login.AwsToken(replace(source.credentials, region=region))


def _tokens(
    source: login.TokenSettings, config: ProducerConfig, clock: Callable[[], float]
) -> TokenSource:
    """One source for all producers of this process with the same settings."""
    rules = RefreshRules(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds,
        config.sasl_login_refresh_buffer_seconds,
    )
    backoff = (
        config.sasl_login_retry_backoff_ms / 1000,
        config.sasl_login_retry_backoff_max_ms / 1000,
    )
    timeouts = (
        _seconds(config.sasl_login_connect_timeout_ms),
        _seconds(config.sasl_login_read_timeout_ms),
    )

    brokers = _tls_options(config) if config.ssl_context is None else None
    tls, and_system = endpoint_tls(config, brokers)

    def make() -> TokenSource:
        contexts = TlsContexts(tls, and_system=and_system)
        return TokenSource(
            _provider(source, _Asking(clock, contexts.get, Limits(*timeouts))),
            clock=clock,
            refresh=rules,
            retry_backoff=backoff,
        )

    return shared_source((_key_of(source), rules, backoff, timeouts, tls, and_system), make)


def loads_of(config: ProducerConfig) -> tuple[Load, ...]:
    """The imports of libraries that the logins of ``config`` call."""
    match login_of(config):
        case login.AwsLogin():
            return (_load_botocore,)
        case login.OAuthLogin(source):
            return _loads_of_tokens(source)
    return ()


def _loads_of_tokens(source: login.TokenSettings) -> tuple[Load, ...]:
    match source:
        case login.AwsToken() | login.AwsWebIdentityToken() | login.ProvidedToken(AwsWebIdentity()):
            return (_load_botocore,)
        case login.ProvidedToken(AzureIdentity() | GcpIdentity()):
            return (_load_http,)
        case login.ProvidedToken() | login.TokenFileSettings():
            return ()
        case login.ClientCredentialsSettings() | login.JwtBearerSettings():
            signs = isinstance(source.assertion, login.SignedAssertionSettings)
            return (_load_http, _load_cryptography) if signs else (_load_http,)
    return (_load_http,)


def _load_botocore() -> None:
    with suppress(ImportError):  # a login says what is missing
        import botocore.auth
        import botocore.awsrequest
        import botocore.config
        import botocore.credentials
        import botocore.exceptions
        import botocore.parsers
        import botocore.session  # noqa: F401


def _load_http() -> None:
    with suppress(ImportError):
        import httpx2  # noqa: F401


def _load_cryptography() -> None:
    """For signed assertions."""
    with suppress(ImportError):
        import cryptography.exceptions
        import cryptography.hazmat.primitives.asymmetric.ec
        import cryptography.hazmat.primitives.asymmetric.padding
        import cryptography.hazmat.primitives.asymmetric.rsa
        import cryptography.hazmat.primitives.asymmetric.utils
        import cryptography.hazmat.primitives.hashes
        import cryptography.hazmat.primitives.serialization  # noqa: F401


class _Asking(NamedTuple):
    """The means of asking servers for tokens."""

    clock: Callable[[], float]
    tls: Callable[[], ssl.SSLContext]
    limits: Limits

    def endpoint(self, url: str) -> TokenEndpoint:
        return TokenEndpoint(url, self.clock, self.tls, self.limits.connect, self.limits.read)


def _key_of(source: login.TokenSettings) -> Hashable:
    match source:
        case login.ProvidedToken(AzureIdentity() | GcpIdentity() | AwsWebIdentity()):
            return source  # equal ones give the same token
        case login.ProvidedToken(provider) if not isinstance(provider, str):
            return identity_of(provider)
    return source


def _seconds(milliseconds: int | None) -> float:
    return _ENDPOINT_TIMEOUT if milliseconds is None else milliseconds / 1000


def _provider(source: login.TokenSettings, asking: _Asking) -> Provider:
    clock, tls, limits = asking
    match source:
        case login.ProvidedToken(AzureIdentity() as identity):
            return replace(identity, clock=clock, tls=tls, limits=limits)
        case login.ProvidedToken(GcpIdentity() as identity):
            return replace(identity, clock=clock, limits=limits)
        case login.ProvidedToken(provider):
            return _imported("sasl_oauthbearer_token_provider", provider)
        case login.TokenFileSettings(path):
            return TokenFile(Path(path))
        case login.ClientCredentialsSettings(url, client_id, secret, scope, urlencode, assertion):
            made = None if assertion is None else _assertion(assertion, clock)
            return ClientCredentials(
                asking.endpoint(url), client_id, secret, scope, urlencode, made
            )
        case login.JwtBearerSettings(url, scope, assertion):
            return JwtBearer(asking.endpoint(url), _assertion(assertion, clock), scope)
        case login.AwsToken(aws):
            return msk_token_provider(aws.region or "", _aws_options(aws))
        case login.AwsWebIdentityToken(region, audience, seconds, algorithm, tags, sts):
            return AwsWebIdentity(region, audience, seconds, algorithm, tags, sts)
        case login.AzureToken(resource, client_id):
            return AzureIdentity(resource, client_id, clock, tls, limits)
        case login.AzureImdsToken(url):
            return AzureImds(url, clock, limits)
        case login.GcpToken():
            return GcpIdentity(clock, limits)


def _assertion(
    assertion: login.AssertionSettings, clock: Callable[[], float]
) -> AssertionFile | SignedAssertion:
    if isinstance(assertion, login.AssertionFileSettings):
        return AssertionFile(Path(assertion.path))
    claims = {"aud": assertion.audience, "iss": assertion.issuer, "sub": assertion.subject}
    return SignedAssertion(
        Path(assertion.private_key_file),
        clock,
        algorithm=assertion.algorithm,
        passphrase=assertion.private_key_passphrase,
        claims=tuple((name, value) for name, value in claims.items() if value is not None),
        template_file=None if assertion.template_file is None else Path(assertion.template_file),
        seconds=(assertion.expires_seconds, assertion.not_before_seconds),
        include_jti=assertion.with_id,
    )


def _imported(option: str, provider: ProviderOption) -> Provider:
    """The provider, which may be the import path ``package.module:function`` of one."""
    if not isinstance(provider, str):
        return provider
    module, _, name = provider.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{option}={provider!r} can't be imported: {error}") from error
    if not callable(found):
        raise ConfigError(f"{option}={provider!r} is not callable")
    return found  # type: ignore[no-any-return]
