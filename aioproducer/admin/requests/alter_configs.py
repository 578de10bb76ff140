"""IncrementalAlterConfigs. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer
from aioproducer.admin.requests.describe_configs import by_resource, resource_key
from aioproducer.admin.values import Append, CheckedChange, ConfigResource, Subtract
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema

_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
"""Kafka's numbers of the operations (``AlterConfigOp.OpType``)."""


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    """Change some values of configurations. The answers are by resource, without a value."""

    changes: Mapping[ConfigResource, Mapping[str, CheckedChange]]
    validate_only: bool = False
    api: Api = Api.INCREMENTAL_ALTER_CONFIGS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.INCREMENTAL_ALTER_CONFIGS)
        resources = []
        for resource, changes in self.changes.items():
            kind, name = resource_key(resource)
            configs = tuple(_config(schema, each, change) for each, change in changes.items())
            resources.append(
                schema.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
            )
        request = schema.IncrementalAlterConfigsRequest(
            resources=tuple(resources), validate_only=self.validate_only
        )
        return encoded(Api.INCREMENTAL_ALTER_CONFIGS, version, request)

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
