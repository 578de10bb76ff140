"""Warnings about secrets that are hardly the ones that were meant. No message shows them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from aioproducer.config.login_sources import LoginSources
from aioproducer.config.secret import Secret

if TYPE_CHECKING:
    from aioproducer.config.options import OptionTable

__all__ = ["CHECKED", "warn_of_odd_secrets"]

CHECKED: Final = (
    "sasl_password",
    "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_assertion_private_key_passphrase",
    "ssl_truststore_password",
    "ssl_keystore_password",
    "ssl_key_password",
)
"""The options that are looked at. PEM text, which may end with a line feed, is not."""
_OF_JAAS: Final = ("password", "clientSecret", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_PLACEHOLDER: Final = re.compile(
    r".*\$\{[^{}]+\}.*|\$[A-Z_][A-Z0-9_]+|\$\([^()]+\)|%[A-Z_][A-Z0-9_]+%|\{\{.+\}\}", re.DOTALL
)
"""``${…}`` anywhere; ``$NAME``, ``$(…)``, ``%NAME%`` and ``{{…}}`` as the whole text."""

_logger: Final = logging.getLogger("aioproducer.config")


def warn_of_odd_secrets(config: OptionTable) -> None:
    """Warn of a secret that looks like a placeholder, or has white space around it."""
    for name, secret in _secrets(config):
        text = secret.reveal()
        if _PLACEHOLDER.fullmatch(text.strip()):
            _logger.warning(
                "%s looks like a placeholder, and is taken as the secret itself: ${env:NAME},"
                " ${file:/path/of.properties:key} and ${dir:/directory:file} are read, in"
                " properties if config.providers names their providers",
                name,
            )
        if text != text.strip():
            _logger.warning(
                "%s begins or ends with white space, which is taken as a part of it", name
            )


def _secrets(config: OptionTable) -> Iterator[tuple[str, Secret]]:
    for name in CHECKED:
        given = getattr(config, name)
        if given is not None:
            yield name, given
    jaas = LoginSources(config).jaas
    if jaas is None:
        return
    for name in _OF_JAAS:
        given = jaas.get(name)
        if given is not None:
            yield f"{name} of sasl_jaas_config", given
