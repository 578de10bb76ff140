"""The entries of a configuration in responses. No I/O."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.admin.values import ConfigEntry

_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Source: Kafka's ``DescribeConfigsResponse.ConfigSource`` and ``ConfigEntry.ConfigSource``."""


def config_entry(said: Any) -> ConfigEntry:
    """An entry of a CreateTopics or DescribeConfigs response."""
    return ConfigEntry(
        said.name,
        said.value,
        _SOURCES.get(said.config_source, "UNKNOWN"),
        said.read_only,
        said.is_sensitive,
    )
