"""The authorities that a token endpoint's certificate is checked against.

Source: ``JaasOptionsUtils`` of Kafka, which takes the options ``ssl.…`` of the JAAS line for the
endpoint, and those of the producer for brokers alone.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from aioproducer.auth.tls_options import TlsOptions
from aioproducer.config import ProducerConfig, Secret
from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.security_kinds import Names
from aioproducer.errors import ConfigError

__all__ = ["endpoint_tls"]

_PREFIX: Final = "ssl."
_NAMES: Final = frozenset(each.name for each in fields(TlsOptions)) - {"context"}
_SECRETS: Final = frozenset({"keystore_key", "keystore_password", "key_password"}) | {
    "truststore_password"
}
_LISTS: Final = frozenset({"enabled_protocols", "cipher_suites"})


def endpoint_tls(config: ProducerConfig, brokers: TlsOptions | None) -> tuple[TlsOptions, bool]:
    """The options for the endpoint, and whether the system's authorities are trusted beside them.

    Options ``ssl.…`` of the JAAS line hold alone. Without any, the truststore of ``brokers`` is
    trusted, and so are the system's authorities: an identity provider often is a public one.

    Raises:
        ConfigError: the JAAS line has an option of TLS that is unknown, or that can't be used.
    """
    line = config.sasl_jaas_config
    given = {} if line is None else _given(parse_jaas(line))
    if given:
        try:
            options = TlsOptions(**given)
        except ConfigError as error:
            raise ConfigError(f"the options ssl.… in sasl_jaas_config: {error}") from None
        return options, False
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


def _given(entry: JaasEntry) -> dict[str, Any]:
    """The arguments of :class:`TlsOptions` in the JAAS line."""
    found = {}
    for name, value in entry.options:
        if not name.startswith(_PREFIX):
            continue
        keyword = name.removeprefix(_PREFIX).replace(".", "_")
        if keyword not in _NAMES:
            raise ConfigError(f"sasl_jaas_config: the option {name} is not available: leave it out")
        found[keyword] = _converted(keyword, value)
    return found


def _converted(keyword: str, value: Secret) -> Any:
    if keyword in _SECRETS:
        return value
    if keyword in _LISTS:
        return Names().accept(value.reveal())
    return value.reveal()
