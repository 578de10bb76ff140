"""The rules between the options of security, and the warnings about some of their values."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from aioproducer.config.configured_login import login_of, mechanism_name_of
from aioproducer.config.option import Group
from aioproducer.config.options import OPTIONS
from aioproducer.config.secret_checks import warn_of_odd_secrets
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.producer_config import ProducerConfig

__all__ = ["settle_security"]

_TLS: Final = tuple(name for name, option in OPTIONS.items() if option.group is Group.TLS)
_SASL: Final = tuple(
    name for name, option in OPTIONS.items() if option.group in (Group.SASL, Group.TOKENS)
)
_TLS_VERSIONS: Final = frozenset({"TLSv1.2", "TLSv1.3"})

_EVENT_HUBS: Final = (
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
)
_EVENT_HUBS_REQUEST: Final = 1_046_528
"""Event Hubs closes the connection of a request from this size on; 1,000,000 is recommended."""
_EVENT_HUBS_IDLE_MS: Final = 240_000
"""Azure drops connections that are idle for longer; 180,000 is recommended, for metadata, too."""

_logger: Final = logging.getLogger("aioproducer.config")


def settle_security(config: ProducerConfig) -> Iterator[tuple[str, object]]:
    """The options of security whose effective value differs from the one that ``config`` holds.

    Raises:
        ConfigError: options contradict each other, or one is missing.
    """
    _check_tls(config)
    _warn_for_event_hubs(config)
    warn_of_odd_secrets(config)
    if not config.security_protocol.startswith("SASL_"):
        for name in _set_of(config, _SASL):
            raise ConfigError(
                f"{name} needs a security_protocol with a login, 'SASL_SSL' (or 'SASL_PLAINTEXT'"
                f" inside a trusted network), not {config.security_protocol!r}"
            )
        return
    login_of(config)
    mechanism = mechanism_name_of(config)
    _warn_of_readable_login(config, mechanism)
    if config.sasl_mechanism is None:
        yield "sasl_mechanism", mechanism


def _set_of(config: ProducerConfig, names: tuple[str, ...]) -> list[str]:
    """The options in ``names`` that were given a value; None is no value."""
    return [name for name in names if name in config.given and getattr(config, name) is not None]


def _check_tls(config: ProducerConfig) -> None:
    given = _set_of(config, _TLS)
    if given and not config.security_protocol.endswith("SSL"):
        _logger.warning(
            "without effect, because security_protocol=%r has no TLS: %s",
            config.security_protocol,
            ", ".join(given),
        )
        return
    if config.ssl_context is not None:
        for name in given:
            if name != "ssl_context":
                raise ConfigError(
                    f"ssl_context and {name}: a context of your own is used as it is; set it up"
                    f" with what {name} says, and leave {name} out"
                )
    for name in config.ssl_enabled_protocols:
        if name not in _TLS_VERSIONS:
            raise ConfigError(
                f"ssl_enabled_protocols has {name!r}; there are TLSv1.2 and TLSv1.3, older ones are"
                " broken"
            )
    if not config.ssl_enabled_protocols:
        raise ConfigError("ssl_enabled_protocols is empty; there are TLSv1.2 and TLSv1.3")
    _check_stores(config)


def _check_stores(config: ProducerConfig) -> None:
    for texts, store in (
        (("ssl_truststore_certificates",), "truststore"),
        (("ssl_keystore_key", "ssl_keystore_certificate_chain"), "keystore"),
    ):
        given = [name for name in texts if getattr(config, name) is not None]
        if not given:
            continue
        for name in texts:
            if name not in given:
                raise ConfigError(f"{given[0]} needs {name} beside it")
        if getattr(config, f"ssl_{store}_location") is not None:
            raise ConfigError(f"ssl_{store}_location and {given[0]}: give the file or the text")
        if getattr(config, f"ssl_{store}_password") is not None:
            advice = "" if store == "truststore" else "; an encrypted key has ssl_key_password"
            raise ConfigError(f"ssl_{store}_password is not for PEM text ({given[0]}){advice}")
        if getattr(config, f"ssl_{store}_type") != "PEM":
            raise ConfigError(f"{given[0]} is PEM text: set ssl_{store}_type='PEM'")


def _warn_of_readable_login(config: ProducerConfig, mechanism: str) -> None:
    if config.security_protocol != "SASL_PLAINTEXT" or mechanism == "GSSAPI":
        return
    if all(_is_loopback(host) for host, _ in config.bootstrap_servers):
        return
    what = {
        "PLAIN": "the password and all records",
        "OAUTHBEARER": "the token and all records",
    }.get(mechanism, "all records")
    _logger.warning(
        "security_protocol='SASL_PLAINTEXT' with %s: %s can be read by everybody on the way; use"
        " 'SASL_SSL' if the brokers offer it",
        mechanism,
        what,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _warn_for_event_hubs(config: ProducerConfig) -> None:
    """Warn of values that Azure Event Hubs does not bear.

    Source: Microsoft's "Recommended configurations for Apache Kafka clients".
    """
    hosts = (host.lower().rstrip(".") for host, _ in config.bootstrap_servers)
    if not any(host.endswith(_EVENT_HUBS) for host in hosts):
        return
    idle = config.connections_max_idle_ms
    wrong: list[str] = []
    if config.max_request_size >= _EVENT_HUBS_REQUEST:
        wrong.append(f"max_request_size={config.max_request_size} (set 1000000)")
    if config.metadata_max_age_ms >= _EVENT_HUBS_IDLE_MS:
        wrong.append(f"metadata_max_age_ms={config.metadata_max_age_ms} (set 180000)")
    if idle < 0 or idle >= _EVENT_HUBS_IDLE_MS:
        wrong.append(f"connections_max_idle_ms={idle} (set 180000)")
    if wrong:
        _logger.warning(
            "Azure Event Hubs closes connections that are idle for 4 minutes, or that carry a"
            " request of 1,046,528 bytes or more; outside its limits: %s",
            ", ".join(wrong),
        )
