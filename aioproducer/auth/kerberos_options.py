"""The options of Java's ``Krb5LoginModule``, read for our own Kerberos login.

Source: ``com.sun.security.auth.module.Krb5LoginModule``; Kafka's ``KerberosLogin``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioproducer.config.jaas import JaasEntry
from aioproducer.errors import ConfigError

__all__ = ["KerberosOptions"]

_OPTIONS: Final = ("keyTab", "principal", "serviceName", "ticketCache")
_SWITCHES: Final = ("useKeyTab", "useTicketCache")
_WITHOUT_MEANING: Final = frozenset(
    {
        "clearPass",
        "debug",
        "doNotPrompt",
        "isInitiator",
        "refreshKrb5Config",
        "renewTGT",
        "storeKey",
        "storePass",
        "tryFirstPass",
        "useFirstPass",
    }
)
"""Of Java's own bookkeeping. Tickets of a cache are renewed by those who put them there."""


@dataclass(frozen=True, slots=True)
class KerberosOptions:
    """The source of the tickets, and the brokers' service."""

    service_name: str
    principal: str | None = None
    """Without one, that of the ticket cache, or the keytab's first."""
    keytab: str | None = None
    use_ticket_cache: bool = False
    """Look there first, and into the keytab only if that fails."""
    ticket_cache: str | None = None
    """Without one, that of ``KRB5CCNAME`` or ``krb5.conf``."""

    @classmethod
    def of_jaas(cls, entry: JaasEntry, service_name: str | None = None) -> KerberosOptions:
        """The options of a JAAS line; ``service_name`` is ``sasl.kerberos.service.name``.

        Raises:
            ConfigError: an option is unknown or missing, or two contradict each other.
        """
        given = {name: value.reveal() for name, value in entry.options}
        if given.keys() - {*_OPTIONS, *_SWITCHES} - _WITHOUT_MEANING:
            raise ConfigError(
                "sasl_jaas_config: an option is none of Krb5LoginModule's (it is not shown, since"
                " a misplaced quote turns a value into a name); those with a meaning here are"
                f" {', '.join((*_SWITCHES, *_OPTIONS))}"
            )
        use_keytab, use_ticket_cache = (given.get(each) == "true" for each in _SWITCHES)
        if use_keytab and not given.get("keyTab"):
            raise ConfigError('sasl_jaas_config: useKeyTab=true needs keyTab="/path/to/keytab"')
        if not use_keytab and not use_ticket_cache:
            raise ConfigError(
                "sasl_jaas_config: Krb5LoginModule needs useKeyTab=true or useTicketCache=true,"
                " since nobody is asked for a password"
            )
        return cls(
            _service_name(given.get("serviceName"), service_name),
            given.get("principal") or None,
            given["keyTab"] if use_keytab else None,
            use_ticket_cache,
            (given.get("ticketCache") or None) if use_ticket_cache else None,
        )


def _service_name(in_jaas: str | None, in_config: str | None) -> str:
    if in_jaas and in_config and in_jaas != in_config:
        raise ConfigError(
            "serviceName in sasl_jaas_config contradicts"
            f" sasl_kerberos_service_name={in_config!r}: give one of them"
        )
    name = in_jaas or in_config
    if not name:
        raise ConfigError(
            "GSSAPI needs sasl_kerberos_service_name: the part of the brokers' principal before"
            " the '/', which is 'kafka' most of the time"
        )
    return name
