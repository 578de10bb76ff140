"""Secrets in the options that Kafka hides: plain ones are found, and hidden from frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aioproducer.config.names import BY_JAVA_NAME, CHECKED_WITHOUT_EFFECT
from aioproducer.config.options import OPTIONS
from aioproducer.config.properties import CONFIG_PROVIDERS, Providers, Reference
from aioproducer.errors import ConfigError
from aioproducer.foundation.secret import Hidden, Secret, hidden, type_name_of

__all__ = [
    "JAAS_SECRETS",
    "hidden_mapping",
    "hidden_properties",
    "hide_secrets",
    "holds_secret",
    "no_config",
    "no_positional",
    "plain_secrets_of",
]

_MARK: Final = "aioproducer.placeholder"

_CERTIFICATES: Final = ("ssl_truststore_certificates", "ssl_keystore_certificate_chain")
JAAS_SECRETS: Final = ("password", "clientSecret", "awsRoleSecretAccessKey", "awsRoleSessionToken")
"""The options of a JAAS line that are secrets."""


def holds_secret(name: str, text: Secret, reference: Reference | None) -> bool:
    """True if ``text``, as it was written for the option ``name``, is or has a secret."""
    if name in _CERTIFICATES and reference is None:
        return "PRIVATE KEY" in text.reveal()  # a certificate is public
    if name == "sasl_jaas_config":
        return _jaas_holds_secret(text, reference)
    if name == "proxy_url":
        return reference is None and "@" in text.reveal()
    return reference is None


def hide_secrets(options: Any) -> None:
    """Wrap the values of secret options and of unknown ones, keywords in a dict, in place and
    before anything can fail: a traceback with the values of its frames then shows no secret.

    A name that no option has may be a misspelt one, or another client's name of a password.
    """
    for name, value in options.items():
        if name not in OPTIONS or OPTIONS[name].kind.hides(value):
            options[name] = hidden(value)


def hidden_mapping(config: Any) -> Any:
    """``config``, or what hides it if it is a mapping, such as other clients take: no argument
    here, and it may hold passwords, which a traceback would show."""
    return Hidden(type(config).__name__) if isinstance(config, Mapping) else config


def no_config(value: object, client: str) -> ConfigError:
    """The error of a positional argument that is no ProducerConfig; ``client``: the class."""
    if isinstance(value, Hidden | Mapping):
        return ConfigError(
            f"{client}() takes no {type_name_of(value)} as its positional argument: pass options "
            f"as keywords, as in {client}(**options). ProducerConfig.from_librdkafka(...) reads "
            "those "
            "of confluent-kafka, and ProducerConfig.from_properties(...) Java's"
        )
    if isinstance(value, str | Secret):
        return ConfigError(
            f"{client}() takes no str as its positional argument: write "
            f"{client}(bootstrap_servers='host:port')"
        )
    return ConfigError(
        f"the only positional argument of {client}() is a ProducerConfig, not a "
        f"{type_name_of(value)}: name the brokers with bootstrap_servers=..., and read Java "
        "properties with ProducerConfig.from_properties(...)"
    )


def no_positional(value: object) -> ConfigError:
    """The error of a positional argument of ``ProducerConfig``, which only takes keywords."""
    if isinstance(value, str | Secret | Hidden | Mapping):
        return no_config(value, "ProducerConfig")
    return ConfigError(
        f"ProducerConfig() takes options only as keywords, not a {type_name_of(value)}: write "
        "ProducerConfig(bootstrap_servers='host:port'); config.replace(linger_ms=5) creates a "
        "changed copy"
    )


def hidden_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which every value is wrapped that is not known to be public."""
    return {
        name: hidden(value) if _may_be_secret(name, value) else value
        for name, value in properties.items()
    }


def _may_be_secret(java_name: str, value: object) -> bool:
    option = BY_JAVA_NAME.get(java_name) or CHECKED_WITHOUT_EFFECT.get(java_name)
    if option is None:
        return not java_name.startswith(CONFIG_PROVIDERS)
    return option.kind.hides(value)


def plain_secrets_of(properties: Mapping[str, str], providers: Providers) -> tuple[str, ...]:
    """The Java names of the properties that hold a secret as it is. Nothing is read."""
    return tuple(
        java_name
        for java_name, value in properties.items()
        if (option := BY_JAVA_NAME.get(java_name)) is not None
        and option.kind.secret
        and holds_secret(option.name, Secret(value), Reference.in_value(value, providers))
    )


def _jaas_holds_secret(line: Secret, reference: Reference | None) -> bool:
    from aioproducer.auth.jaas import parse_jaas

    if reference is not None:
        line = reference.with_placeholders_as(_MARK)
        if line.reveal().strip() == _MARK:
            return False
    try:
        entry = parse_jaas(line)
    except ConfigError:
        return True  # its content is not known
    secrets = (entry.get(name) for name in JAAS_SECRETS)
    return any(found is not None and _MARK not in found.reveal() for found in secrets)
