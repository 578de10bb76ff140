"""Replicas of partitions, and settings of topics, as ``kafka-topics`` takes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from aioproducer.errors import ConfigError

__all__ = ["replica_lists", "topic_settings"]


def replica_lists(text: str) -> list[list[int]]:
    """``1:2,2:3``: the broker ids of each partition, partitions parted by commas.

    Raises:
        ConfigError: an id is no number.
    """
    try:
        return [[int(broker) for broker in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--replica-assignment {text!r}: write the broker ids of each partition, such as "
            "1:2,2:3 for two partitions with two replicas each"
        ) from None


def topic_settings(settings: Iterable[str]) -> dict[str, str]:
    """``name=value`` each.

    Raises:
        ConfigError: there is no ``=``.
    """
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--config {text!r}: write name=value, such as retention.ms=3600000")
        found[name.strip()] = value.strip()
    return found
