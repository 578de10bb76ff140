"""The rules between options, after each has passed its own check.

The rules are those of Java's ``ProducerConfig.postProcessParsedConfig`` and ``KafkaProducer.
configureDeliveryTimeout`` in Kafka 4: an explicit contradiction is an error, a default gives way.
The rules of security stand in ``security_checks.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from aioproducer.config.kinds import INT_MAX
from aioproducer.config.options import ADAPTIVE_LINGER_MS
from aioproducer.config.security_checks import settle_security
from aioproducer.errors import ConfigError

if TYPE_CHECKING:
    from aioproducer.config.producer_config import ProducerConfig

__all__ = ["MAX_IN_FLIGHT_FOR_IDEMPOTENCE", "settle"]

MAX_IN_FLIGHT_FOR_IDEMPOTENCE: Final = 5
"""Brokers remember the last five batches of a producer and partition."""

_logger: Final = logging.getLogger("aioproducer.config")


def settle(config: ProducerConfig) -> Iterator[tuple[str, object]]:
    """The options whose effective value differs from the one that ``config`` holds.

    Raises:
        ConfigError: options contradict each other, or lack what they need.
    """
    _check_memory(config)
    _warn_without_effect(config)
    yield from settle_security(config)
    yield from _settle_delivery_timeout(config)
    yield from _settle_idempotence(config)
    yield from _settle_reconnect_backoff(config)


def _check_memory(config: ProducerConfig) -> None:
    for_batches = config.buffer_memory - config.buffer_memory // 4
    if config.batch_size > for_batches:
        raise ConfigError(
            f"batch_size={config.batch_size} does not fit into three quarters of"
            f" buffer_memory={config.buffer_memory} ({for_batches} bytes; the rest is kept for"
            " records that wait): lower batch_size or raise buffer_memory"
        )


def _warn_without_effect(config: ProducerConfig) -> None:
    if config.partitioner is not None:
        for name in ("partitioner_ignore_keys", "partitioner_availability_timeout_ms"):
            if getattr(config, name):
                _logger.warning("%s has no effect: a partitioner is set", name)
    for base, bound in (
        ("retry_backoff_ms", "retry_backoff_max_ms"),
        ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
    ):
        lower, upper = getattr(config, base), getattr(config, bound)
        if lower > upper:
            _logger.warning("%s=%d is above %s=%d, which is used", base, lower, bound, upper)


def _settle_delivery_timeout(config: ProducerConfig) -> Iterator[tuple[str, object]]:
    linger = ADAPTIVE_LINGER_MS if config.linger_ms is None else config.linger_ms
    least = min(linger + config.request_timeout_ms, INT_MAX)
    if config.delivery_timeout_ms >= least:
        return
    if "delivery_timeout_ms" in config.given:
        shown = f"adaptive: {linger}" if config.linger_ms is None else f"{linger}"
        raise ConfigError(
            f"delivery_timeout_ms={config.delivery_timeout_ms} must be at least linger_ms"
            f" ({shown}) + request_timeout_ms ({config.request_timeout_ms}) = {least}"
        )
    _logger.warning("delivery_timeout_ms is set to %d: linger_ms + request_timeout_ms", least)
    yield "delivery_timeout_ms", least


def _settle_idempotence(config: ProducerConfig) -> Iterator[tuple[str, object]]:
    transactional = config.transactional_id is not None
    if not config.enable_idempotence:
        if transactional:
            raise ConfigError(
                "transactional_id needs enable_idempotence=True (the default): transactions stand "
                "on it"
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


def _settle_reconnect_backoff(config: ProducerConfig) -> Iterator[tuple[str, object]]:
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
