"""OAUTHBEARER's options: the source of tokens that they select, and the mechanism made of them.

:func:`oauth_login` reads the options. Names and parameters of the tokens that a cloud gives its
machines (``sasl.oauthbearer.metadata.authentication.type``) are librdkafka's, which has
``azure_imds``, and confluent-kafka's, which has ``aws_iam`` as well.

Source: Kafka's ``DefaultJwtRetriever``, and ``JaasOptionsUtils``, which takes the options ``ssl.…``
of the JAAS line for the token endpoint, and those of the producer only for brokers.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from aioproducer.auth.aws_msk_iam import (
    AwsLogin,
    aws_login,
    load_botocore,
    msk_token_provider,
    region_of,
)
from aioproducer.auth.aws_web_identity import AwsWebIdentity, web_identity_of
from aioproducer.auth.azure import AzureIdentity, AzureImds, azure_identity_of, azure_imds_of
from aioproducer.auth.gcp import GcpIdentity
from aioproducer.auth.http_exchange import Limits, load_http
from aioproducer.auth.jaas import LoginSources, parse_jaas, plain_class_name
from aioproducer.auth.mechanism import Login, Options
from aioproducer.auth.oauthbearer import OAuthBearer, RefreshRules, extension_fault
from aioproducer.auth.providers import Provider, imported, limit
from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.auth.token_endpoint import (
    Assertion,
    AssertionFile,
    ClientCredentials,
    JwtBearer,
    SignedAssertion,
    TokenEndpoint,
    TokenFile,
    load_cryptography,
)
from aioproducer.auth.tokens import TokenSource, identity_of, shared_source
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Secret

__all__ = ["ClientCredentialsSettings", "JwtBearerSettings", "OAuthLogin", "oauth_login"]


class _Asking(NamedTuple):
    """The means of asking servers for tokens."""

    clock: Callable[[], float]
    tls: Callable[[], ssl.SSLContext]
    limits: Limits

    def endpoint(self, url: str) -> TokenEndpoint:
        return TokenEndpoint(url, self.clock, self.tls, self.limits.connect, self.limits.read)


@dataclass(frozen=True, slots=True)
class ClientCredentialsSettings:
    """The grant ``client_credentials``: with a secret, or with an assertion instead of it."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    client_id: str | None
    client_secret: Secret | None
    scope: str | None
    header_urlencode: bool
    assertion: Assertion | None = None


@dataclass(frozen=True, slots=True)
class JwtBearerSettings:
    """The grant ``jwt-bearer`` (RFC 7523)."""

    endpoint_url: str = field(repr=False)
    """Not shown: its query may hold a key."""
    scope: str | None
    assertion: Assertion


_Grant: TypeAlias = ClientCredentialsSettings | JwtBearerSettings
_Machine: TypeAlias = AwsWebIdentity | AzureIdentity | AzureImds | GcpIdentity
"""The identity of this machine or pod."""
_Source: TypeAlias = _Grant | _Machine | AwsLogin | TokenFile | Provider | str
"""One of ours has a value to compare; others are the user's own code, or its import path."""


@dataclass(frozen=True, slots=True)
class OAuthLogin(Login):
    """``OAUTHBEARER``. Timeouts and the window of refreshes are options of their own."""

    source: _Source
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def loads(self) -> tuple[Callable[[], None], ...]:
        """See :attr:`aioproducer.auth.mechanism.Login.loads`."""
        match self.source:
            case AwsLogin() | AwsWebIdentity():
                return (load_botocore,)
            case ClientCredentialsSettings(assertion=signed) | JwtBearerSettings(assertion=signed):
                signs = isinstance(signed, SignedAssertion)
                return (load_http, load_cryptography) if signs else (load_http,)
            case AzureIdentity() | AzureImds() | GcpIdentity():
                return (load_http,)
        return ()

    @property
    def asks_over_https(self) -> bool:
        """See :attr:`aioproducer.auth.mechanism.Login.asks_over_https`."""
        return isinstance(self.source, _Grant | AzureIdentity)

    def make(self, options: Options, clock: Callable[[], float]) -> OAuthBearer:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""
        return OAuthBearer(_tokens(self.source, options, clock), dict(self.extensions))


def _tokens(source: _Source, options: Options, clock: Callable[[], float]) -> TokenSource:
    """One source for all producers of this process with the same settings."""
    if isinstance(source, AwsLogin) and source.region is None:
        source = replace(source, region=_region(options))
    rules = RefreshRules(
        options.sasl_login_refresh_window_factor,
        options.sasl_login_refresh_window_jitter,
        options.sasl_login_refresh_min_period_seconds,
        options.sasl_login_refresh_buffer_seconds,
    )
    backoff = (
        options.sasl_login_retry_backoff_ms / 1000,
        options.sasl_login_retry_backoff_max_ms / 1000,
    )
    limits = Limits(
        limit(options.sasl_login_connect_timeout_ms), limit(options.sasl_login_read_timeout_ms)
    )
    tls, and_system = _endpoint_tls(options)

    def make() -> TokenSource:
        asking = _Asking(clock, TlsContexts(tls, and_system=and_system).get, limits)
        provider = _provider(source, asking)
        return TokenSource(provider, clock=clock, refresh=rules, retry_backoff=backoff)

    return shared_source((_key_of(source), rules, backoff, limits, tls, and_system), make)


def _region(options: Options) -> str:
    """A token of AWS is good for one region: by default that of the brokers' names."""
    for host, _ in options.bootstrap_servers:
        if (region := region_of(host)) is not None:
            return region
    raise ConfigError(
        "sasl_aws_region is required for AWS tokens: no name in bootstrap_servers contains a region"
    )


def _endpoint_tls(options: Options) -> tuple[TlsOptions, bool]:
    """The options for the endpoint, and whether the system's authorities are trusted beside them.

    Only options ``ssl.…`` of the JAAS line apply. Without any, the truststore of the brokers is
    trusted, and so are the system's authorities: an identity provider often is a public one.

    Raises:
        ConfigError: the JAAS line has an option of TLS that is unknown, or that can't be used.
    """
    line = options.sasl_jaas_config
    pairs = () if line is None else parse_jaas(line).options
    if given := [(name, value) for name, value in pairs if name.startswith("ssl.")]:
        return TlsOptions.of_properties(given, "the options ssl.… in sasl_jaas_config"), False
    brokers = TlsOptions() if options.ssl_context is not None else TlsOptions.of(options)
    if brokers.truststore_location is None and brokers.truststore_certificates is None:
        return TlsOptions(), False
    return (
        TlsOptions(
            truststore_type=brokers.truststore_type,
            truststore_location=brokers.truststore_location,
            truststore_password=brokers.truststore_password,
            truststore_certificates=brokers.truststore_certificates,
        ),
        True,
    )


def _key_of(source: _Source) -> Hashable:
    if isinstance(source, _Grant | _Machine | AwsLogin | TokenFile | str):
        return source  # equal ones give the same token
    return identity_of(source)


def _provider(source: _Source, asking: _Asking) -> Provider:
    clock, tls, limits = asking
    match source:
        case AzureIdentity():
            return replace(source, clock=clock, tls=tls, limits=limits)
        case AzureImds() | GcpIdentity():
            return replace(source, clock=clock, limits=limits)
        case ClientCredentialsSettings(url, client_id, secret, scope, urlencode, assertion):
            signed = None if assertion is None else _signing(assertion, clock)
            return ClientCredentials(
                asking.endpoint(url), client_id, secret, scope, urlencode, signed
            )
        case JwtBearerSettings(url, scope, assertion):
            return JwtBearer(asking.endpoint(url), _signing(assertion, clock), scope)
        case AwsLogin(region, aws):
            return msk_token_provider(region or "", aws)
    return imported("sasl_oauthbearer_token_provider", source)


def _signing(assertion: Assertion, clock: Callable[[], float]) -> Assertion:
    return replace(assertion, clock=clock) if isinstance(assertion, SignedAssertion) else assertion


_KAFKA: Final = "org.apache.kafka.common.security.oauthbearer"
_RETRIEVER: Final = re.compile(
    rf"(?:{re.escape(_KAFKA)}\.)?(Default|ClientCredentials|JwtBearer|File)JwtRetriever"
)
_HANDLERS: Final = (
    f"{_KAFKA}.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA}.secured.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA}.internals.OAuthBearerSaslClientCallbackHandler",
)
_MSK_HANDLER: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_GCP_HANDLER: Final = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
_AZURE_HANDLER: Final = (
    "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler"
)
_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"
_PARAMETERS: Final = "sasl_oauthbearer_config"
_CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"
_ASSERTION: Final = "sasl_oauthbearer_assertion"
_MACHINES: Final[dict[str, tuple[str, Callable[[LoginSources, dict[str, str]], _Machine]]]] = {
    "azure": ("resource|client_id", azure_identity_of),
    "azure_imds": ("query", azure_imds_of),
    "aws_iam": (
        "region|audience|duration_seconds|signing_algorithm|sts_endpoint|aws_debug|tag_.+",
        web_identity_of,
    ),
    "gcp": ("", lambda sources, parameters: GcpIdentity()),
}
"""The types of metadata authentication: the pattern of their keys, and their reading."""


def oauth_login(sources: LoginSources) -> OAuthLogin:
    """The login by the options.

    Raises:
        ConfigError: an option is missing, contradicts, or is a Java class that is not known here.
    """
    config = sources.config
    handler = plain_class_name(config.sasl_login_callback_handler_class or "")
    source: _Source
    if (provider := config.sasl_oauthbearer_token_provider) is not None:
        _check_alone(config)
        source = provider
    elif handler == _MSK_HANDLER:
        return OAuthLogin(aws_login(sources))
    else:
        source = _of_machine(sources, handler) or _of_endpoint(sources)
    extensions = sources.beginning_with("extension_")
    if extension_fault(extensions):
        raise ConfigError(
            "sasl_jaas_config: extension_NAME=value needs a name of only letters, other than"
            " 'auth', and a printable value"
        )
    return OAuthLogin(
        source, tuple({**extensions, **dict(config.sasl_oauthbearer_extensions)}.items())
    )


def _check_alone(config: Options) -> None:
    for name in (_URL, _CLIENT_ID, _CLIENT_SECRET, _METADATA):
        if getattr(config, name) not in (None, "none"):
            raise ConfigError(
                f"sasl_oauthbearer_token_provider and {name} are two sources of tokens: set only "
                "one"
            )


def _of_machine(sources: LoginSources, handler: str) -> _Machine | None:
    """The source of tokens that needs no secret; None: none is asked for."""
    config = sources.config
    kind = config.sasl_oauthbearer_metadata_authentication_type
    if kind == "none" and handler == _GCP_HANDLER:
        kind = "gcp"
    if kind == "none":
        if config.sasl_oauthbearer_config is not None:
            raise ConfigError(
                f"{_PARAMETERS} has no use without {_METADATA}: set that, or remove it"
            )
        return None
    keys, read = _MACHINES[kind]
    return read(sources, _parameters(kind, keys, config.sasl_oauthbearer_config or ""))


def _parameters(kind: str, keys: str, text: str) -> dict[str, str]:
    """``key=value,key=value``; a comma in a value is written as ``\\,``."""
    found = {}
    for each in re.split(r"(?<!\\),", text) if text.strip() else ():
        name, sign, value = (part.strip() for part in each.partition("="))
        if not sign or not value:
            raise ConfigError(
                f"{_PARAMETERS} must have the form 'key=value,key=value', with '\\,' for a comma in"
                " a value (it is not shown because it may contain a secret)"
            )
        if not re.fullmatch(keys, name):
            known = keys.replace("|", ", ").replace(".+", "NAME")
            told = f"its keys are {known}" if known else "it has none: remove the option"
            raise ConfigError(
                f"{_PARAMETERS}: the key {name[:100]!r} is unknown for {_METADATA}={kind!r}; {told}"
            )
        found[name] = value.replace("\\,", ",")
    return found


def _of_endpoint(sources: LoginSources) -> _Grant | TokenFile:
    config = sources.config
    for name in ("sasl_login_callback_handler_class", "sasl_client_callback_handler_class"):
        _check_handler(name, getattr(config, name))
    if sources.beginning_with("unsecuredLogin"):
        raise ConfigError(
            "sasl_jaas_config: unsecuredLogin… creates unsigned tokens, which is not "
            "supported; provide such a token with sasl_oauthbearer_token_provider"
        )
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        raise ConfigError(
            f"sasl_mechanism='OAUTHBEARER' needs sasl_oauthbearer_token_provider, or {_URL} with"
            f" {_CLIENT_ID} and {_CLIENT_SECRET}, or {_METADATA}"
        )
    parts = urlsplit(url)
    is_file = parts.scheme.lower() == "file"
    how = _retriever(config, is_file=is_file)
    if is_file != (how == "File") or (not is_file and not parts.netloc):
        wanted = "a file, 'file:///…'" if how == "File" else "a URL, 'https://…'"
        raise ConfigError(f"{_URL} must be {wanted} for tokens from {how}JwtRetriever")
    if is_file:
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ConfigError(
                f"{_URL} is not a local file; write it as file:///var/run/secrets/token"
            )
        return TokenFile(Path(unquote(parts.path)))
    if parts.scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{_URL} must begin with 'https://' (or 'file:', 'http://' in tests)")
    scope = sources.text("sasl_oauthbearer_scope", "scope")
    if how == "JwtBearer":
        return JwtBearerSettings(url, scope, _assertion(config))
    return _client_credentials(url, scope, sources)


def _check_handler(name: str, handler: str | None) -> None:
    if handler is None or plain_class_name(handler) in _HANDLERS:
        return
    advice = (
        f"set {_METADATA}='azure'"
        if plain_class_name(handler) == _AZURE_HANDLER
        else "remove it, and provide tokens with sasl_oauthbearer_token_provider or an endpoint"
    )
    raise ConfigError(f"{name}={handler!r}: Java classes cannot be loaded; {advice}")


def _retriever(config: Options, *, is_file: bool) -> str:
    name = config.sasl_oauthbearer_jwt_retriever_class
    known = _RETRIEVER.fullmatch(plain_class_name(name))
    if known is None:
        raise ConfigError(
            f"sasl_oauthbearer_jwt_retriever_class={name!r}: Java classes cannot be "
            "loaded; supported are Kafka's DefaultJwtRetriever, "
            "ClientCredentialsJwtRetriever, JwtBearerJwtRetriever and "
            "FileJwtRetriever; set your own as sasl_oauthbearer_token_provider"
        )
    if known[1] == "Default":
        return "File" if is_file else "ClientCredentials"
    return known[1]


def _client_credentials(
    url: str, scope: str | None, sources: LoginSources
) -> ClientCredentialsSettings:
    config = sources.config
    client_id = sources.text(_CLIENT_ID, "clientId")
    secret = sources.secret(_CLIENT_SECRET, "clientSecret")
    assertion = None
    if (
        config.sasl_oauthbearer_assertion_file is not None
        or config.sasl_oauthbearer_assertion_claim_iss is not None
    ):
        assertion = _assertion(config)
    elif client_id is None or secret is None:
        missing, jaas_name = (
            (_CLIENT_ID, "clientId") if client_id is None else (_CLIENT_SECRET, "clientSecret")
        )
        raise ConfigError(
            f"tokens of {_URL} need {missing} (or {jaas_name} in sasl_jaas_config), or an assertion"
            " by the options sasl_oauthbearer_assertion_…"
        )
    urlencode = config.sasl_oauthbearer_header_urlencode
    return ClientCredentialsSettings(url, client_id, secret, scope, urlencode, assertion)


def _assertion(config: Options) -> Assertion:
    if config.sasl_oauthbearer_assertion_file is not None:
        return AssertionFile(Path(config.sasl_oauthbearer_assertion_file))
    key = config.sasl_oauthbearer_assertion_private_key_file
    if key is None:
        raise ConfigError(
            f"an assertion needs {_ASSERTION}_private_key_file to sign it, or"
            f" {_ASSERTION}_file with a signed one"
        )
    claims = {name: getattr(config, f"{_ASSERTION}_claim_{name}") for name in ("aud", "iss", "sub")}
    template = config.sasl_oauthbearer_assertion_template_file
    return SignedAssertion(
        Path(key),
        algorithm=config.sasl_oauthbearer_assertion_algorithm,
        passphrase=config.sasl_oauthbearer_assertion_private_key_passphrase,
        claims=tuple((name, value) for name, value in claims.items() if value is not None),
        template_file=None if template is None else Path(template),
        seconds=(
            config.sasl_oauthbearer_assertion_claim_exp_seconds,
            config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        ),
        include_jti=config.sasl_oauthbearer_assertion_claim_jti_include,
    )
