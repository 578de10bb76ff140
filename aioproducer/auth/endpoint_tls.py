"""The authorities that a token endpoint's certificate is checked against.

Source: ``JaasOptionsUtils`` of Kafka, which takes the options ``ssl.…`` of the JAAS line for the
endpoint, and those of the producer only for brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from aioproducer.auth.tls_options import TlsOptions
from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.security_kinds import Names
from aioproducer.errors import ConfigError

__all__ = ["endpoint_tls", "tls_options"]

_PREFIX: Final = "ssl."
_NAMES: Final = frozenset(each.name for each in fields(TlsOptions)) - {"context"}
_SECRETS: Final = frozenset({"keystore_key", "keystore_password", "key_password"}) | {
    "truststore_password"
}
_LISTS: Final = frozenset({"enabled_protocols", "cipher_suites"})


def endpoint_tls(config: ProducerConfig, brokers: TlsOptions | None) -> tuple[TlsOptions, bool]:
    """The options for the endpoint, and whether the system's authorities are trusted beside them.

    Only options ``ssl.…`` of the JAAS line apply. Without any, the truststore of ``brokers`` is
    trusted, and so are the system's authorities: an identity provider often is a public one.

    Raises:
        ConfigError: the JAAS line has an option of TLS that is unknown, or that can't be used.
    """
    line = config.sasl_jaas_config
    given = () if line is None else _given(parse_jaas(line))
    if given:
        return tls_options(given, "the options ssl.… in sasl_jaas_config"), False
    if brokers is None or (brokers.truststore_location, brokers.truststore_certificates) == (
        None,
        None,
    ):
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


def tls_options(given: Iterable[tuple[str, Secret]], where: str) -> TlsOptions:
    """The options with Java's names, ``ssl.keystore.location``; ``where`` they stand is for errors.

    Raises:
        ConfigError: an option is unknown, or can't be used.
    """
    arguments = {}
    for name, value in given:
        keyword = name.removeprefix(_PREFIX).replace(".", "_")
        if keyword not in _NAMES:
            raise ConfigError(f"{where}: the option {name} is not supported: remove it")
        arguments[keyword] = _converted(keyword, value)
    try:
        return TlsOptions(**arguments)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _given(entry: JaasEntry) -> list[tuple[str, Secret]]:
    return [(name, value) for name, value in entry.options if name.startswith(_PREFIX)]


def _converted(keyword: str, value: Secret) -> Any:
    if keyword in _SECRETS:
        return value
    if keyword in _LISTS:
        return Names().accept(value.reveal())
    return value.reveal()
