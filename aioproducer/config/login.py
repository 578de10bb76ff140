"""The login that a configuration asks for, its mechanism, and the TLS of its connections.

Each mechanism is a file of ``auth/``: the reading of its options, their checks, and its exchange.
A configuration without TLS and logins imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, get_args

from aioproducer.auth.jaas import LoginSources, mechanisms_of_module, plain_class_name
from aioproducer.config.options import OPTIONS, OptionTable, SaslMechanism
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.auth.mechanism import Login, Mechanism
    from aioproducer.auth.tls import TlsContexts
    from aioproducer.config import ProducerConfig

__all__ = [
    "check_tls",
    "loads_of",
    "login_of",
    "mechanism_name_of",
    "mechanism_of",
    "read_login",
    "tls_of",
]

_KAFKA: Final = "org.apache.kafka.common.security"
_LOGIN_CLASSES: Final = (
    f"{_KAFKA}.authenticator.DefaultLogin",
    f"{_KAFKA}.kerberos.KerberosLogin",
    f"{_KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
)
_CLIENT_HANDLERS: Final = {
    f"{_KAFKA}.authenticator.SaslClientCallbackHandler": None,
    f"{_KAFKA}.oauthbearer.internals.OAuthBearerSaslClientCallbackHandler": "OAUTHBEARER",
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "AWS_MSK_IAM",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler": "OAUTHBEARER",
}
_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
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


def login_of(config: OptionTable) -> Login | None:
    """The login of ``config``; None for a protocol without one.

    Raises:
        ConfigError: the mechanism, or something that it needs, is missing, or two options
            contradict each other.
    """
    if not config.security_protocol.startswith("SASL_"):
        return None
    sources = LoginSources(config)
    return read_login(mechanism_name_of(config, sources), config, sources)


def read_login(mechanism: SaslMechanism, config: OptionTable, sources: LoginSources) -> Login:
    """The login of ``config`` by ``mechanism``. Raises as :func:`login_of`."""
    _check_mechanism(mechanism, sources)
    _check_classes(mechanism, config)
    if mechanism == "GSSAPI":
        from aioproducer.auth.gssapi import kerberos_login

        return kerberos_login(sources)
    if mechanism == "AWS_MSK_IAM":
        from aioproducer.auth.aws_msk_iam import aws_login

        return aws_login(sources)
    if mechanism == "OAUTHBEARER":
        from aioproducer.auth.oauth_login import oauth_login

        return oauth_login(sources)
    if (provider := config.sasl_credentials_provider) is not None:
        from aioproducer.auth.providers import provided_login

        return provided_login(mechanism, provider, sources)
    from aioproducer.auth.passwords import password_login

    return password_login(mechanism, sources)


def mechanism_of(config: ProducerConfig, clock: Callable[[], float]) -> Mechanism | None:
    """The SASL mechanism with its credentials; None: no login.

    ``clock`` gives seconds since the epoch (``time.time``).

    Raises:
        ConfigError: credentials are missing, or can't be used.
        MissingExtraError: the mechanism needs an extra that is not installed.
    """

    def make(config: ProducerConfig) -> Mechanism | None:
        found = login_of(config)
        return None if found is None else found.make(config, clock)

    made = make(config)
    if made is None or not config.references:
        return made
    from aioproducer.auth.providers import RereadMechanism

    return RereadMechanism(config, made, make)


def loads_of(config: ProducerConfig) -> tuple[Callable[[], None], ...]:
    """The imports of libraries that the login of ``config`` calls."""
    login = login_of(config)
    return () if login is None else login.loads


def check_tls(config: OptionTable) -> None:
    """Raise ConfigError if options of TLS contradict each other; no file is read."""
    from aioproducer.auth.tls import TlsOptions

    TlsOptions.of(config)


def tls_of(config: ProducerConfig) -> TlsContexts | None:
    """The source of each connection's TLS context; None: plain text.

    Raises:
        ConfigError: options of TLS contradict each other.
    """
    if config.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    from aioproducer.auth.tls import TlsContexts, TlsOptions

    reread = (lambda: TlsOptions.of(config.reread())) if config.references else None
    return TlsContexts(TlsOptions.of(config), reread=reread)


def mechanism_name_of(config: OptionTable, sources: LoginSources) -> SaslMechanism:
    """``sasl_mechanism``, or ``GSSAPI`` where a login of Kerberos is all that is configured.

    Kafka's default is GSSAPI always. A user that forgets the mechanism beside a user name then gets
    an error about Kerberos; an error that asks for the mechanism says what to do.

    Raises:
        ConfigError: the mechanism has to be set.
    """
    if config.sasl_mechanism is not None:
        return config.sasl_mechanism
    meant = () if sources.jaas is None else mechanisms_of_module(sources.jaas.login_module)
    kerberos = (name for name in OPTIONS if name.startswith("sasl_kerberos_"))
    if meant == ("GSSAPI",) or (
        not meant and any(getattr(config, name) is not None for name in kerberos)
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
