"""DeleteGroups. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest:
    """Ask a coordinator to delete groups. The answers are by group, without a value."""

    groups: tuple[str, ...]
    api: Api = Api.DELETE_GROUPS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.DELETE_GROUPS)
        request = schema.DeleteGroupsRequest(groups_names=self.groups)
        return encoded(Api.DELETE_GROUPS, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answers by group."""
        found = {each.group_id: Answer.of(each) for each in response.results}
        return in_order(self.groups, found)
