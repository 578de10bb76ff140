"""ListGroups. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer
from aioproducer.admin.values import GroupListing
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """Ask a broker for the groups that it coordinates. The answer has a tuple of listings."""

    api: Api = Api.LIST_GROUPS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.LIST_GROUPS)
        request = schema.ListGroupsRequest()
        return encoded(Api.LIST_GROUPS, version, request)

    def read(self, response: Any) -> Answer:
        """The answer. States are known from version 4 on, types from version 5 on."""
        return Answer.of(
            response,
            tuple(
                GroupListing(
                    each.group_id,
                    each.protocol_type,
                    each.group_state or None,
                    each.group_type or None,
                )
                for each in response.groups
            ),
        )
