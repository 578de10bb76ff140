"""The requests about brokers, and about the configurations of brokers and topics. No I/O.

ApiVersions, DescribeConfigs, IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.values import Append, CheckedChange, ConfigEntry, ConfigResource, Subtract
from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.foundation.version import __version__


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest(SchemaRequest):
    """Ask a broker for its versions. The answer has a mapping of names to lowest and highest."""

    api = Api.API_VERSIONS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.ApiVersionsRequest("aioproducer", __version__)

    def read(self, response: Any) -> Answer:
        """The answer; requests that this client does not make are left out."""
        ours = {int(api): api.name for api in Api}
        ranges = {
            ours[each.api_key]: (each.min_version, each.max_version)
            for each in response.api_keys
            if each.api_key in ours
        }
        return Answer.of(response, dict(sorted(ranges.items())))


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


_TOPIC: Final = 2
_BROKER: Final = 4
"""Kafka's numbers of the types of resources (``ConfigResource.Type``)."""


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest(SchemaRequest):
    """Ask for the configuration of topics and brokers. The answers are by resource.

    The value of an answer is a mapping of names to entries. A broker knows its own configuration.
    """

    resources: tuple[ConfigResource, ...]
    names: tuple[str, ...] | None = None
    """None: all."""
    api = Api.DESCRIBE_CONFIGS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.DescribeConfigsRequest(
            resources=tuple(
                schema.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=self.names
                )
                for kind, name in map(resource_key, self.resources)
            ),
        )

    def read(self, response: Any) -> Mapping[ConfigResource, Answer]:
        """The answers by resource."""
        return by_resource(
            self.resources,
            {
                (each.resource_type, each.resource_name): Answer.of(
                    each, {entry.name: config_entry(entry) for entry in each.configs}
                )
                for each in response.results
            },
        )


def resource_key(resource: ConfigResource) -> tuple[int, str]:
    """Kafka's type and name of a resource."""
    return (_TOPIC, resource) if isinstance(resource, str) else (_BROKER, str(resource))


def by_resource(
    requested: tuple[ConfigResource, ...], found: Mapping[tuple[int, str], Answer]
) -> Mapping[ConfigResource, Answer]:
    """The answers about the requested resources; ``found`` has them by Kafka's type and name."""
    answers = in_order(map(resource_key, requested), found)
    return {resource: answers[resource_key(resource)] for resource in requested}


_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
"""Kafka's numbers of the operations (``AlterConfigOp.OpType``)."""


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(SchemaRequest):
    """Change some values of configurations. The answers are by resource, without a value."""

    changes: Mapping[ConfigResource, Mapping[str, CheckedChange]]
    validate_only: bool = False
    api = Api.INCREMENTAL_ALTER_CONFIGS

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        resources = []
        for resource, changes in self.changes.items():
            kind, name = resource_key(resource)
            configs = tuple(_config(schema, each, change) for each, change in changes.items())
            resources.append(
                schema.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            )
        return schema.IncrementalAlterConfigsRequest(
            resources=tuple(resources), validate_only=self.validate_only
        )

    def read(self, response: Any) -> Mapping[ConfigResource, Answer]:
        """The answers by resource."""
        return by_resource(
            tuple(self.changes),
            {
                (each.resource_type, each.resource_name): Answer.of(each)
                for each in response.responses
            },
        )


def _config(schema: Any, name: str, change: CheckedChange) -> Any:
    value: str | None
    match change:
        case None:
            operation, value = _DELETE, None
        case Append(added):
            operation, value = _APPEND, added
        case Subtract(removed):
            operation, value = _SUBTRACT, removed
        case str(text):
            operation, value = _SET, text
    return schema.AlterableConfig(name=name, config_operation=operation, value=value)
