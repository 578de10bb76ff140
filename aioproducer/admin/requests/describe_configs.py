"""DescribeConfigs. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.admin.requests.config_entries import config_entry
from aioproducer.admin.values import ConfigResource
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema

_TOPIC: Final = 2
_BROKER: Final = 4
"""Kafka's numbers of the types of resources (``ConfigResource.Type``)."""


@dataclass(frozen=True, slots=True)
class DescribeConfigsRequest:
    """Ask for the configuration of topics and brokers. The answers are by resource.

    The value of an answer is a mapping of names to entries. A broker knows its own configuration.
    """

    resources: tuple[ConfigResource, ...]
    names: tuple[str, ...] | None = None
    """None: all."""
    api: Api = Api.DESCRIBE_CONFIGS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.DESCRIBE_CONFIGS)
        request = schema.DescribeConfigsRequest(
            resources=tuple(
                schema.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=self.names
                )
                for kind, name in map(resource_key, self.resources)
            ),
        )
        return encoded(Api.DESCRIBE_CONFIGS, version, request)

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
