"""The options of a :class:`MockProducer`: the real ones, with a few that the mock decides."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.config import ProducerConfig, ProducerOptions
from aioproducer.config.producer_config import configuration

_DECIDED: Final[dict[str, Any]] = {
    "batch_size": 0,
    "linger_ms": 0,
    "client_dns_lookup": "use_all_dns_ips",
    "bootstrap_resolve_timeout_ms": 0,
}
"""A batch has one record, so each record has an answer of its own. No name is looked up."""
_BOOTSTRAP_SERVERS: Final = "mock:9092"
_PATIENCE: Final = {
    "max_block_ms": 1_000,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 10_000,
}
"""Shorter than a real producer's: a test that has forgotten an answer ends soon."""


def config_of(config: ProducerConfig | None, options: ProducerOptions) -> ProducerConfig:
    """The configuration of a mock producer. Raises :class:`ConfigError` as the real one does."""
    given: dict[str, Any] = {**options, **_DECIDED}
    if config is None:
        patience = {} if _PATIENCE.keys() & given.keys() else _PATIENCE
        given = {"bootstrap_servers": _BOOTSTRAP_SERVERS, **patience, **given}
    return configuration(config, given, "MockProducer")
