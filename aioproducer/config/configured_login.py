"""The login that a configuration asks for, from its keywords or its JAAS line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from aioproducer.config.jaas import (
    LoginSources,
    mechanisms_of_module,
    plain_class_name,
)
from aioproducer.config.login import (
    AwsLogin,
    AwsToken,
    AzureToken,
    ClientCredentialsSettings,
    JwtBearerSettings,
    KerberosLogin,
    Login,
    OAuthLogin,
    PlainLogin,
    ProvidedLogin,
    ProvidedToken,
    ScramLogin,
)
from aioproducer.config.oauth_login import oauth_login
from aioproducer.config.security_kinds import ProviderOption
from aioproducer.config.security_options import SaslMechanism
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.options import GivenOptions, OptionTable

__all__ = ["asks_over_https", "read_login", "login_of", "mechanism_name_of"]

_KAFKA: Final = "org.apache.kafka.common.security"
_LOGIN_CLASSES: Final = frozenset(
    {
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
    }
)
_CLIENT_HANDLERS: Final = {
    f"{_KAFKA}.authenticator.SaslClientCallbackHandler": None,
    f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler": "OAUTHBEARER",
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "AWS_MSK_IAM",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": "OAUTHBEARER",
}
_MSK_TOKENS: Final = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORDS: Final = ("PLAIN", *_SCRAM)
_KERBEROS_OPTIONS: Final = (
    "sasl_kerberos_service_name",
    "sasl_kerberos_principal",
    "sasl_kerberos_keytab",
)
_MEANT_FOR: Final[dict[str, tuple[str, ...]]] = {
    "sasl_username": _PASSWORDS,
    "sasl_password": _PASSWORDS,
    "sasl_credentials_provider": _PASSWORDS,
    "sasl_kerberos_principal": ("GSSAPI",),
    "sasl_kerberos_keytab": ("GSSAPI",),
    "sasl_aws_profile_name": ("AWS_MSK_IAM",),
    "sasl_aws_role_arn": ("AWS_MSK_IAM",),
    "sasl_oauthbearer_token_provider": ("OAUTHBEARER",),
    "sasl_oauthbearer_client_credentials_client_id": ("OAUTHBEARER",),
    "sasl_oauthbearer_client_credentials_client_secret": ("OAUTHBEARER",),
}
"""The options that name the principal: for another mechanism they are a mistake, not a leftover."""


def login_of(config: GivenOptions) -> Login | None:
    """The login of ``config``; None for a protocol without one.

    Raises:
        ConfigError: the mechanism, or something that it needs, is missing, or two options
            contradict each other.
    """
    if not config.security_protocol.startswith("SASL_"):
        return None
    sources = LoginSources(config)
    return read_login(mechanism_name_of(sources), sources)


def read_login(mechanism: SaslMechanism, sources: LoginSources) -> Login:
    """The login of ``sources`` by ``mechanism``. Raises as :func:`login_of`."""
    config = sources.config
    _check_mechanism(mechanism, sources)
    _check_classes(mechanism, config)
    if mechanism in _PASSWORDS:
        return _password_login(mechanism, sources)
    if mechanism == "GSSAPI":
        return _kerberos_login(sources)
    if mechanism == "AWS_MSK_IAM":
        return _aws_login(sources)
    handler = config.sasl_login_callback_handler_class
    provided = config.sasl_oauthbearer_token_provider is not None
    if handler is not None and plain_class_name(handler) == _MSK_TOKENS and not provided:
        return OAuthLogin(AwsToken(_aws_login(sources)))
    return oauth_login(sources)


def asks_over_https(login: Login) -> bool:
    """True if a token's source is asked over HTTPS with the authorities of ``ssl_truststore_…``."""
    match login:
        case OAuthLogin(ClientCredentialsSettings() | JwtBearerSettings() | AzureToken()):
            return True
        case OAuthLogin(ProvidedToken(provider)):
            return hasattr(provider, "tls")  # an AzureIdentity
    return False


def mechanism_name_of(sources: LoginSources) -> SaslMechanism:
    """``sasl_mechanism``, or ``GSSAPI`` where a login of Kerberos is all that is configured.

    Kafka's default is GSSAPI always. A user that forgets the mechanism beside a user name then gets
    an error about Kerberos; an error that asks for the mechanism says what to do.

    Raises:
        ConfigError: the mechanism has to be set.
    """
    config = sources.config
    if config.sasl_mechanism is not None:
        return config.sasl_mechanism
    meant = () if sources.jaas is None else mechanisms_of_module(sources.jaas.login_module)
    if meant == ("GSSAPI",) or (
        not meant and any(getattr(config, name) is not None for name in _KERBEROS_OPTIONS)
    ):
        return "GSSAPI"
    raise ConfigError(
        f"security_protocol={config.security_protocol!r} needs sasl_mechanism, which is not set;"
        f" it is one of {', '.join(meant or get_args(SaslMechanism))}"
        + (" for this login module" if meant else "")
    )


def _check_mechanism(mechanism: str, sources: LoginSources) -> None:
    if sources.jaas is not None:
        meant = mechanisms_of_module(sources.jaas.login_module)
        if mechanism not in meant:
            raise ConfigError(
                f"sasl_mechanism={mechanism!r} and sasl_jaas_config contradict each "
                f"other: the login module is for {' and '.join(meant)}; set "
                "sasl_mechanism to that, or use the JAAS line of the mechanism"
            )
    for name, mechanisms in _MEANT_FOR.items():
        if mechanism not in mechanisms and getattr(sources.config, name) is not None:
            raise ConfigError(
                f"{name} is for sasl_mechanism {' or '.join(map(repr, mechanisms))}, not"
                f" {mechanism!r}: set that, or remove {name}"
            )


def _check_classes(mechanism: str, config: OptionTable) -> None:
    login_class = config.sasl_login_class
    if login_class is not None and plain_class_name(login_class) not in _LOGIN_CLASSES:
        raise ConfigError(
            f"sasl_login_class={login_class!r}: Java classes cannot be loaded; remove it, or "
            "provide tokens with sasl_oauthbearer_token_provider"
        )
    if mechanism == "OAUTHBEARER":
        return  # a token provider can do the work of its handlers
    handler = config.sasl_login_callback_handler_class
    if handler is not None:
        raise ConfigError(
            f"sasl_login_callback_handler_class={handler!r}: Java classes cannot be loaded, and "
            f"{mechanism} needs none; remove it"
        )
    handler = config.sasl_client_callback_handler_class
    if handler is not None:
        meant = _CLIENT_HANDLERS.get(plain_class_name(handler), "")
        if meant == "":
            raise ConfigError(
                f"sasl_client_callback_handler_class={handler!r}: Java classes cannot be loaded; "
                "remove it"
            )
        if meant not in (None, mechanism):
            raise ConfigError(
                f"sasl_client_callback_handler_class={handler!r} is for sasl_mechanism {meant!r},"
                f" not {mechanism!r}"
            )


def _password_login(mechanism: str, sources: LoginSources) -> Login:
    if (provider := sources.config.sasl_credentials_provider) is not None:
        return _provided_login(mechanism, provider, sources)
    username = sources.text("sasl_username", "username")
    password = sources.secret("sasl_password", "password")
    if username is None:
        raise _missing(mechanism, "username")
    if password is None:
        raise _missing(mechanism, "password")
    token_auth = sources.flag("tokenauth")
    if mechanism != "PLAIN":
        return ScramLogin(mechanism, username, password, token_auth)
    return PlainLogin(username, password)


def _provided_login(
    mechanism: str, provider: ProviderOption, sources: LoginSources
) -> ProvidedLogin:
    for keyword, jaas_name in (("sasl_username", "username"), ("sasl_password", "password")):
        if sources.secret(keyword, jaas_name) is not None:
            raise ConfigError(
                f"sasl_credentials_provider and {keyword} (or {jaas_name} in sasl_jaas_config) "
                "are two sources of credentials: set only one"
            )
    return ProvidedLogin(mechanism, provider, sources.flag("tokenauth"))


def _missing(mechanism: str, name: str) -> ConfigError:
    return ConfigError(
        f"sasl_mechanism={mechanism!r} needs sasl_{name}, or {name} in sasl_jaas_config, or"
        " sasl_credentials_provider"
    )


def _kerberos_login(sources: LoginSources) -> KerberosLogin:
    service_name = sources.text("sasl_kerberos_service_name", "serviceName")
    if service_name is None:
        raise ConfigError(
            "sasl_mechanism='GSSAPI' needs sasl_kerberos_service_name (or serviceName in"
            " sasl_jaas_config), the first part of the brokers' principals: 'kafka' for most"
            " clusters"
        )
    principal = sources.text("sasl_kerberos_principal", "principal")
    keytab = sources.text("sasl_kerberos_keytab", "keyTab" if sources.flag("useKeyTab") else None)
    ticket_cache = None
    if sources.jaas is not None and keytab is None:
        if sources.flag("useKeyTab"):
            raise ConfigError(
                "sasl_jaas_config: useKeyTab=true needs keyTab, the path of the keytab file"
            )
        if not sources.flag("useTicketCache"):
            raise ConfigError(
                "sasl_jaas_config: Krb5LoginModule would ask for a password; set "
                "useKeyTab=true with keyTab, or useTicketCache=true"
            )
        ticket_cache = sources.text(None, "ticketCache")
    return KerberosLogin(service_name, principal, keytab, ticket_cache)


def _aws_login(sources: LoginSources) -> AwsLogin:
    login = AwsLogin(
        region=sources.text("sasl_aws_region", None),
        profile_name=sources.text("sasl_aws_profile_name", "awsProfileName"),
        role_arn=sources.text("sasl_aws_role_arn", "awsRoleArn"),
        role_session_name=sources.text("sasl_aws_role_session_name", "awsRoleSessionName"),
        role_external_id=sources.text("sasl_aws_role_external_id", "awsRoleExternalId"),
        role_access_key_id=sources.text(None, "awsRoleAccessKeyId"),
        role_secret_access_key=sources.secret(None, "awsRoleSecretAccessKey"),
        role_session_token=sources.secret(None, "awsRoleSessionToken"),
        sts_region=sources.text("sasl_aws_sts_region", "awsStsRegion"),
    )
    if (login.role_access_key_id is None) != (login.role_secret_access_key is None):
        raise ConfigError(
            "sasl_jaas_config: awsRoleAccessKeyId and awsRoleSecretAccessKey belong together"
        )
    if login.role_arn is None:
        for name in ("role_session_name", "role_external_id", "role_access_key_id"):
            if getattr(login, name) is not None:
                raise ConfigError(
                    f"{name} of an AWS login is for a role: set sasl_aws_role_arn (awsRoleArn in"
                    " sasl_jaas_config)"
                )
    return login
