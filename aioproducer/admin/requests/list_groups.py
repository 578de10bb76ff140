"""ListGroups. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer
from aioproducer.admin.values import GroupListing
from aioproducer.engine.network.apis import Api, request_module


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """Ask a broker for the groups that it coordinates. The answer has a tuple of listings."""

    api: Api = Api.LIST_GROUPS
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.LIST_GROUPS, version)
        request: RequestPayload = module.ListGroupsRequest()
        return request

    def read(self, response: Any) -> Answer:
        """The answer. States are known from version 4 on, types from version 5 on."""
        return Answer.of(
            response,
            tuple(
                GroupListing(
                    str(each.group_id),
                    str(each.protocol_type),
                    str(getattr(each, "group_state", "")) or None,
                    str(getattr(each, "group_type", "")) or None,
                )
                for each in response.groups
            ),
        )
