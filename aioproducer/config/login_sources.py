"""The two places of a login, keywords and JAAS line, read as one; and the Java classes in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.options import OptionTable

__all__ = ["LoginSources", "mechanisms_of_module", "plain_class_name"]

_KAFKA: Final = "org.apache.kafka.common.security"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES: Final[dict[str, tuple[str, ...]]] = {
    f"{_KAFKA}.plain.PlainLoginModule": ("PLAIN",),
    f"{_KAFKA}.scram.ScramLoginModule": _SCRAM,
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
    "com.sun.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "com.ibm.security.auth.module.Krb5LoginModule": ("GSSAPI",),
    "software.amazon.msk.auth.iam.IAMLoginModule": ("AWS_MSK_IAM",),
}
_SHADED: Final = re.compile(r"\w+\.(?=org\.apache\.kafka\.|software\.amazon\.msk\.)")
"""Distributions of Spark carry these classes under a package of their own (``kafkashaded.…``)."""
_CLASS_NAME: Final = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*Module", re.ASCII)
_TRUE: Final = "true"


def plain_class_name(name: str) -> str:
    """The class's own name, without the package that a distribution has put before it."""
    name = name.strip()
    prefix = _SHADED.match(name)
    return name[prefix.end() :] if prefix else name


def mechanisms_of_module(login_module: str) -> tuple[str, ...]:
    """The mechanisms that a login module is for.

    Raises:
        ConfigError: the module is not known here.
    """
    found = _MODULES.get(plain_class_name(login_module))
    if found is not None:
        return found
    # A misplaced quote makes a word of a password: only a word like a class name is shown.
    named = f" {login_module}" if _CLASS_NAME.fullmatch(login_module) else ""
    raise ConfigError(
        f"sasl_jaas_config: the login module{named} is not known; there are"
        f" {', '.join(name.rpartition('.')[2] for name in _MODULES if '.ibm.' not in name)} of"
        " Kafka, Java and aws-msk-iam-auth"
    )


class LoginSources:
    """The settings of a login in ``config``, from keywords and JAAS line together."""

    def __init__(self, config: OptionTable) -> None:
        self.config = config
        line = config.sasl_jaas_config
        self.jaas: JaasEntry | None = None if line is None else parse_jaas(line)

    def secret(self, keyword: str | None, jaas_name: str | None) -> Secret | None:
        """The text of either place; None if neither has it.

        Raises:
            ConfigError: both have it, and differ.
        """
        given = None if keyword is None else getattr(self.config, keyword)
        there = None if self.jaas is None or jaas_name is None else self.jaas.get(jaas_name)
        if given is None:
            return there
        given = given if isinstance(given, Secret) else Secret(given)
        if there is not None and there != given:
            raise ConfigError(
                f"{keyword} and {jaas_name} of sasl_jaas_config differ: give one of them, or the"
                " same in both"
            )
        return given

    def text(self, keyword: str | None, jaas_name: str | None) -> str | None:
        """Like :meth:`secret`, for a text that may be shown; an empty text is none."""
        found = self.secret(keyword, jaas_name)
        return (found.reveal() or None) if found is not None else None

    def flag(self, jaas_name: str) -> bool:
        """True if the JAAS line says ``true``."""
        found = None if self.jaas is None else self.jaas.get(jaas_name)
        return found is not None and found.reveal().strip().lower() == _TRUE

    def beginning_with(self, prefix: str) -> dict[str, str]:
        """The JAAS line's options whose names begin so, by the rest of their names."""
        options = () if self.jaas is None else self.jaas.options
        return {
            name.removeprefix(prefix): value.reveal()
            for name, value in options
            if name.startswith(prefix)
        }
