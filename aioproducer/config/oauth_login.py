"""The sources of the tokens of ``OAUTHBEARER``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from aioproducer.config.jaas import LoginSources, plain_class_name
from aioproducer.config.kinds import UnacceptableError
from aioproducer.config.login import (
    AssertionFileSettings,
    AssertionSettings,
    ClientCredentialsSettings,
    JwtBearerSettings,
    OAuthLogin,
    ProvidedToken,
    SignedAssertionSettings,
    TokenFileSettings,
    TokenSettings,
)
from aioproducer.config.metadata_login import metadata_settings
from aioproducer.config.security_kinds import Extensions
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.options import OptionTable

__all__ = ["oauth_login"]

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_RETRIEVER: Final = re.compile(
    rf"(?:{re.escape(_OAUTH)}\.)?(Default|ClientCredentials|JwtBearer|File)JwtRetriever"
)
_HANDLERS: Final = frozenset(
    {
        f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}.internals.OAuthBearerSaslClientCallbackHandler",
    }
)
_ADVICE: Final = {
    "com.azure.spring.cloud.service.implementation.kafka.KafkaOAuth2AuthenticateCallbackHandler": (
        "set sasl_oauthbearer_metadata_authentication_type='azure'"
    ),
}
_LOCAL_HOSTS: Final = ("", "localhost")
_URL: Final = "sasl_oauthbearer_token_endpoint_url"
_METADATA: Final = "sasl_oauthbearer_metadata_authentication_type"
_CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
_CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"


def oauth_login(sources: LoginSources) -> OAuthLogin:
    """The login by token.

    Raises:
        ConfigError: an option is missing, contradicts, or is a Java class that is not known here.
    """
    return OAuthLogin(_source(sources), _extensions(sources))


def _source(sources: LoginSources) -> TokenSettings:
    config = sources.config
    if config.sasl_oauthbearer_token_provider is not None:
        return _provided(config)
    if (settings := metadata_settings(sources)) is not None:
        return settings
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
    return _from_url(url, sources)


def _provided(config: OptionTable) -> ProvidedToken:
    for name in (_URL, _CLIENT_ID, _CLIENT_SECRET, _METADATA):
        if getattr(config, name) not in (None, "none"):
            raise ConfigError(
                f"sasl_oauthbearer_token_provider and {name} are two sources of tokens: set only "
                "one"
            )
    provider = config.sasl_oauthbearer_token_provider
    if provider is None:
        raise ConfigError("sasl_oauthbearer_token_provider is not set")
    return ProvidedToken(provider)


def _check_handler(name: str, handler: str | None) -> None:
    if handler is None or plain_class_name(handler) in _HANDLERS:
        return
    advice = _ADVICE.get(
        plain_class_name(handler),
        "remove it, and provide tokens with sasl_oauthbearer_token_provider or an endpoint",
    )
    raise ConfigError(f"{name}={handler!r}: Java classes cannot be loaded; {advice}")


def _from_url(url: str, sources: LoginSources) -> TokenSettings:
    config = sources.config
    parts = urlsplit(url)
    is_file = parts.scheme.lower() == "file"
    how = _retriever(config, is_file=is_file)
    if is_file != (how == "File") or (not is_file and not parts.netloc):
        wanted = "a file, 'file:///…'" if how == "File" else "a URL, 'https://…'"
        raise ConfigError(f"{_URL} must be {wanted} for tokens from {how}JwtRetriever")
    if is_file:
        if parts.netloc not in _LOCAL_HOSTS or not parts.path.startswith("/"):
            raise ConfigError(
                f"{_URL} is not a local file; write it as file:///var/run/secrets/token"
            )
        return TokenFileSettings(unquote(parts.path))
    if parts.scheme.lower() not in ("http", "https"):
        raise ConfigError(f"{_URL} must begin with 'https://' (or 'file:', 'http://' in tests)")
    scope = sources.text("sasl_oauthbearer_scope", "scope")
    if how == "JwtBearer":
        return JwtBearerSettings(url, scope, _assertion(config))
    return _client_credentials(url, scope, sources)


def _retriever(config: OptionTable, *, is_file: bool) -> str:
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


def _assertion(config: OptionTable) -> AssertionSettings:
    if config.sasl_oauthbearer_assertion_file is not None:
        return AssertionFileSettings(config.sasl_oauthbearer_assertion_file)
    key = config.sasl_oauthbearer_assertion_private_key_file
    if key is None:
        raise ConfigError(
            "an assertion needs sasl_oauthbearer_assertion_private_key_file to sign it, or"
            " sasl_oauthbearer_assertion_file with a signed one"
        )
    return SignedAssertionSettings(
        private_key_file=key,
        private_key_passphrase=config.sasl_oauthbearer_assertion_private_key_passphrase,
        algorithm=config.sasl_oauthbearer_assertion_algorithm,
        template_file=config.sasl_oauthbearer_assertion_template_file,
        audience=config.sasl_oauthbearer_assertion_claim_aud,
        issuer=config.sasl_oauthbearer_assertion_claim_iss,
        subject=config.sasl_oauthbearer_assertion_claim_sub,
        expires_seconds=config.sasl_oauthbearer_assertion_claim_exp_seconds,
        not_before_seconds=config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        with_id=config.sasl_oauthbearer_assertion_claim_jti_include,
    )


def _extensions(sources: LoginSources) -> tuple[tuple[str, str], ...]:
    of_line = sources.beginning_with("extension_")
    try:
        Extensions().accept(of_line)
    except UnacceptableError:
        raise ConfigError(
            "sasl_jaas_config: extension_NAME=value needs a name of only letters, other than"
            " 'auth', and a printable value"
        ) from None
    return tuple({**of_line, **dict(sources.config.sasl_oauthbearer_extensions)}.items())
