"""What users give to a consumer, and the checks of it. No I/O."""

from __future__ import annotations

from typing import Any

from aioproducer.config import ProducerOptions, ReaderKeywords
from aioproducer.consumer.options import ConsumerKeywords, ConsumerOptions
from aioproducer.errors import ConfigError


class ConsumerArguments(ProducerOptions, ReaderKeywords, ConsumerKeywords):
    """The keywords of a Consumer."""


class ConsumerOverrides(ConsumerArguments, total=False):
    """Keywords that count instead of properties."""

    group_id: str


def check_group(group_id: Any, options: ConsumerOptions) -> None:
    """Raise :class:`ConfigError` for what no group takes."""
    if not isinstance(group_id, str) or not group_id.strip():
        raise ConfigError("group_id is the name of the group, a text that is not empty")
    if options.heartbeat_interval_ms * 3 > options.session_timeout_ms:
        raise ConfigError(
            "heartbeat_interval_ms has to be a third of session_timeout_ms at most: one lost "
            "heartbeat must not end the session"
        )


def check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{name} is an int, at least 1, not {number!r:.80}")
