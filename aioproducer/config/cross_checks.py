"""The rules between options, after each has passed its own check.

The rules are those of Java's ``ProducerConfig.postProcessParsedConfig`` and ``KafkaProducer.
configureDeliveryTimeout`` in Kafka 4: an explicit contradiction is an error, a default gives way.
The rules of security and the warnings about odd secrets follow; no message shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from aioproducer.config.kinds import INT_MAX
from aioproducer.config.options import ADAPTIVE_LINGER_MS, OPTIONS, Group, OptionTable
from aioproducer.config.plain_secrets import JAAS_SECRETS
from aioproducer.errors import ConfigError
from aioproducer.foundation.codecs import codec_library
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.secret import Secret
from aioproducer.model import is_event_hubs, is_loopback

if TYPE_CHECKING:  # a client without a login or a proxy imports neither
    from aioproducer.auth.jaas import JaasEntry
    from aioproducer.config.proxy_url import Proxy

__all__ = [
    "CHECKED_SECRETS",
    "MAX_IN_FLIGHT_FOR_IDEMPOTENCE",
    "proxy_of",
    "resolved_at_proxy",
    "settle",
    "unused_rack",
]

MAX_IN_FLIGHT_FOR_IDEMPOTENCE: Final = 5
"""Brokers remember the last five batches of a producer and partition."""

_TLS: Final = tuple(name for name, option in OPTIONS.items() if option.group is Group.TLS)
_SASL: Final = tuple(
    name for name, option in OPTIONS.items() if option.group in (Group.SASL, Group.TOKENS)
)
_STORE_TYPES: Final = ("ssl_truststore_type", "ssl_keystore_type")
_TRUSTSTORE: Final = tuple(name for name in _TLS if name.startswith("ssl_truststore_"))
"""What the request for a token takes of the options for TLS."""

_EVENT_HUBS_REQUEST: Final = 1_046_528
"""Event Hubs closes the connection of a request from this size on; 1,000,000 is recommended."""
_EVENT_HUBS_IDLE_MS: Final = 240_000
"""Azure drops connections that are idle for longer; 180,000 is recommended, for metadata, too."""

CHECKED_SECRETS: Final = (
    "sasl_password",
    "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_assertion_private_key_passphrase",
    "ssl_truststore_password",
    "ssl_keystore_password",
    "ssl_key_password",
)
"""The options that are looked at. PEM text, which may end with a line feed, is not."""
_PLACEHOLDER: Final = (
    r"(?s).*\$\{[^{}]+\}.*|\$[A-Z_][A-Z0-9_]+|\$\([^()]+\)|%[A-Z_][A-Z0-9_]+%|\{\{.+\}\}"
)
"""``${…}`` anywhere; ``$NAME``, ``$(…)``, ``%NAME%`` and ``{{…}}`` as the whole text."""

_logger: Final = plain_logger("aioproducer.config")


def settle(config: OptionTable) -> Iterator[tuple[str, object]]:
    """The options whose effective value differs from the one that ``config`` holds.

    Raises:
        ConfigError: options contradict each other, or lack what they need.
        MissingExtraError: the library of ``compression_type`` is not installed.
    """
    _check_memory(config)
    codec_library(config.compression_type)
    _warn_without_effect(config)
    _check_proxy(config)
    yield from _settle_security(config)
    yield from _settle_delivery_timeout(config)
    yield from _settle_idempotence(config)
    yield from _settle_reconnect_backoff(config)


def _check_memory(config: OptionTable) -> None:
    for_batches = config.buffer_memory - config.buffer_memory // 4
    if config.batch_size is not None and config.batch_size > for_batches:
        raise ConfigError(
            f"batch_size={config.batch_size} does not fit into three quarters of"
            f" buffer_memory={config.buffer_memory} ({for_batches} bytes; the rest is kept for"
            " records that wait): lower batch_size or raise buffer_memory"
        )


def _warn_without_effect(config: OptionTable) -> None:
    if config.partitioner is not None:
        for name in (
            "partitioner_ignore_keys",
            "partitioner_availability_timeout_ms",
            "partitioner_rack_aware",
        ):
            if getattr(config, name):
                _logger.warning("%s has no effect: a partitioner is set", name)
    elif config.partitioner_rack_aware and not config.client_rack:
        _logger.warning("partitioner_rack_aware has no effect: client_rack is not set")
    for base, bound in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ):
        lower, upper = getattr(config, base), getattr(config, bound)
        if lower > upper:
            _logger.warning("%s=%d is above %s=%d, which is used", base, lower, bound, upper)


def unused_rack(config: OptionTable) -> str | None:
    """The warning to a producer that does not use its ``client_rack``; consumers use theirs."""
    if not config.client_rack or config.partitioner_rack_aware:
        return None
    return "client_rack has no effect on a producer: partitioner_rack_aware is not set"


def _check_proxy(config: OptionTable) -> None:
    """Names that the proxy resolves are not looked up here."""
    if not resolved_at_proxy(config):
        return
    if config.client_dns_lookup != "use_all_dns_ips":
        raise ConfigError(
            f"client_dns_lookup={config.client_dns_lookup!r} looks names up here, but with "
            "proxy_url the proxy resolves them: remove client_dns_lookup, or use socks5:// in "
            "proxy_url"
        )
    if config.bootstrap_resolve_timeout_ms:
        _logger.warning(
            "bootstrap_resolve_timeout_ms has no effect: with this proxy_url the proxy resolves "
            "names"
        )


def resolved_at_proxy(config: OptionTable) -> bool:
    """True if the names of brokers are resolved by a proxy, and not here."""
    proxy = proxy_of(config)
    return proxy is not None and proxy.resolves_names


def proxy_of(config: OptionTable) -> Proxy | None:
    """The proxy of all connections to brokers, if there is one."""
    if config.proxy_url is None:
        return None
    from aioproducer.config.proxy_url import parse_proxy_url

    return parse_proxy_url(config.proxy_url)


def _settle_delivery_timeout(config: OptionTable) -> Iterator[tuple[str, object]]:
    linger = ADAPTIVE_LINGER_MS if config.linger_ms is None else config.linger_ms
    least = min(linger + config.request_timeout_ms, INT_MAX)
    if config.delivery_timeout_ms >= least:
        return
    if "delivery_timeout_ms" in config.given:
        shown = f"adaptive: {linger}" if config.linger_ms is None else f"{linger}"
        raise ConfigError(
            f"delivery_timeout_ms={config.delivery_timeout_ms} must be at least linger_ms"
            f" ({shown}) + request_timeout_ms ({config.request_timeout_ms}) = {least}: "
            "raise it, or lower request_timeout_ms"
        )
    _logger.warning("delivery_timeout_ms is set to %d: linger_ms + request_timeout_ms", least)
    yield "delivery_timeout_ms", least


def _settle_idempotence(config: OptionTable) -> Iterator[tuple[str, object]]:
    transactional = config.transactional_id is not None
    if not config.enable_idempotence:
        if transactional:
            raise ConfigError(
                "transactional_id needs enable_idempotence=True (the default): "
                "transactions depend on it"
            )
        return
    conflicts: list[str] = []
    if config.acks != "all":
        conflicts.append(f"acks='all', not {config.acks!r}")
    if config.retries == 0:
        conflicts.append("retries above 0, not 0")
    gives_way = bool(conflicts) and "enable_idempotence" not in config.given and not transactional
    in_flight = config.max_in_flight_requests_per_connection
    if in_flight > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
        gives_way = False
        conflicts.append(
            "max_in_flight_requests_per_connection of at most"
            f" {MAX_IN_FLIGHT_FOR_IDEMPOTENCE}, not {in_flight}"
        )
    if gives_way:
        _logger.info("idempotence is disabled: it needs %s", " and ".join(conflicts))
        yield "enable_idempotence", False
    elif conflicts:
        if transactional:
            raise ConfigError(f"transactional_id needs {' and '.join(conflicts)}: change that")
        raise ConfigError(
            f"enable_idempotence=True (the default) needs {' and '.join(conflicts)};"
            " change that, or set enable_idempotence=False"
        )


def _settle_reconnect_backoff(config: OptionTable) -> Iterator[tuple[str, object]]:
    base, maximum = config.reconnect_backoff_ms, config.reconnect_backoff_max_ms
    if "reconnect_backoff_max_ms" in config.given:
        if base > maximum:
            _logger.warning(
                "reconnect_backoff_ms=%d is above reconnect_backoff_max_ms=%d, which is used",
                base,
                maximum,
            )
    elif "reconnect_backoff_ms" in config.given:
        _logger.warning(
            "reconnect backoff stays at %d ms: reconnect_backoff_ms is set without"
            " reconnect_backoff_max_ms",
            base,
        )
        yield "reconnect_backoff_max_ms", base


def _settle_security(config: OptionTable) -> Iterator[tuple[str, object]]:
    """The options of security whose effective value differs from the one that ``config`` holds.

    Raises:
        ConfigError: options contradict each other, or one is missing.
    """
    _check_tls(config)
    _warn_for_event_hubs(config)
    if not config.security_protocol.startswith("SASL_"):
        _check_unencrypted(config, ())
        for name in _set_of(config, _SASL):
            raise ConfigError(
                f"{name} needs a security_protocol with a login, 'SASL_SSL' (or 'SASL_PLAINTEXT'"
                f" inside a trusted network), not {config.security_protocol!r}"
            )
        _warn_of_odd_secrets(config, None)
        return
    from aioproducer.auth.jaas import LoginSources
    from aioproducer.config.login import mechanism_name_of, read_login

    sources = LoginSources(config)
    _warn_of_odd_secrets(config, sources.jaas)
    mechanism = mechanism_name_of(config, sources)
    login = read_login(mechanism, config, sources)
    _check_unencrypted(config, _TRUSTSTORE if login.asks_over_https else ())
    _warn_of_readable_login(config, mechanism)
    if config.sasl_mechanism is None:
        yield "sasl_mechanism", mechanism


def _set_of(config: OptionTable, names: tuple[str, ...]) -> list[str]:
    """The options in ``names`` that were given a value; None is no value."""
    return [name for name in names if name in config.given and getattr(config, name) is not None]


def _check_tls(config: OptionTable) -> None:
    """Raise the error of ``TlsOptions`` for connections, or for the request for a token."""
    protocol = config.security_protocol
    if protocol.endswith("SSL") or (protocol != "PLAINTEXT" and _set_of(config, _TRUSTSTORE)):
        from aioproducer.config.login import check_tls

        check_tls(config)


def _check_unencrypted(config: OptionTable, of_login: tuple[str, ...]) -> None:
    """Without TLS there are no options for it but those ``of_login``; a default says nothing, and
    neither does the type of a store that is not given.

    Raises:
        ConfigError: an option that has no effect asks for TLS.
    """
    if config.security_protocol.endswith("SSL"):
        return
    given = [
        name
        for name in _set_of(config, _TLS)
        if name not in of_login
        and name not in _STORE_TYPES
        and getattr(config, name) not in ("", (), Secret(""), OPTIONS[name].default)
    ]
    if given:
        secured = "SASL_SSL" if config.security_protocol.startswith("SASL") else "SSL"
        raise ConfigError(
            f"{', '.join(given)}: security_protocol={config.security_protocol!r} sends everything "
            f"in the clear; set security_protocol={secured!r}, or remove these options"
        )


def _warn_of_readable_login(config: OptionTable, mechanism: str) -> None:
    if config.security_protocol != "SASL_PLAINTEXT" or mechanism == "GSSAPI":
        return
    if all(is_loopback(host) for host, _ in config.bootstrap_servers):
        return
    what = {
        "PLAIN": "the password and all records",
        "OAUTHBEARER": "the token and all records",
    }.get(mechanism, "all records")
    _logger.warning(
        "security_protocol='SASL_PLAINTEXT' with %s: %s are readable by anyone on the "
        "network path; use 'SASL_SSL' if the brokers offer it",
        mechanism,
        what,
    )


def _warn_for_event_hubs(config: OptionTable) -> None:
    """Warn of values that Azure Event Hubs does not bear.

    Source: Microsoft's "Recommended configurations for Apache Kafka clients".
    """
    if not any(is_event_hubs(host) for host, _ in config.bootstrap_servers):
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


def _warn_of_odd_secrets(config: OptionTable, jaas: JaasEntry | None) -> None:
    """Warn of a secret that looks like a placeholder, or has whitespace around it."""
    for name, secret in _secrets(config, jaas):
        text = secret.reveal()
        if re.fullmatch(_PLACEHOLDER, text.strip()):
            _logger.warning(
                "%s looks like a placeholder, but is used as the secret itself. The "
                "placeholders are ${env:NAME}, ${file:/path/of.properties:key} and "
                "${dir:/directory:file}; in properties they need config.providers",
                name,
            )
        if text != text.strip():
            _logger.warning("%s begins or ends with whitespace, which is part of the secret", name)


def _secrets(config: OptionTable, jaas: JaasEntry | None) -> Iterator[tuple[str, Secret]]:
    for name in CHECKED_SECRETS:
        given = getattr(config, name)
        if given is not None:
            yield name, given
    if jaas is None:
        return
    for name in JAAS_SECRETS:
        given = jaas.get(name)
        if given is not None:
            yield f"{name} of sasl_jaas_config", given
