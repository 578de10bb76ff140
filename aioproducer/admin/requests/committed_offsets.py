"""OffsetFetch: all committed offsets of a group. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests import (
    fetched_offsets,
    offset_fetch_message,
)


@dataclass(frozen=True, slots=True)
class CommittedOffsetsRequest:
    """Ask a group's coordinator for all its offsets. The answer is by group.

    The value is a mapping of partitions to :class:`OffsetAndMetadata`. Offsets of open transactions
    are not waited for: the last committed ones count.
    """

    group: str
    api: Api = Api.OFFSET_FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_FETCH)
        message = offset_fetch_message(schema, version, self.group, None, stable=False)
        return encoded(Api.OFFSET_FETCH, version, message)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by group. Raises :class:`ProtocolError` if it is about another group."""
        said = fetched_offsets(response, self.group, None)
        return {
            self.group: Answer(said.error_code, None, None if said.error_code else said.offsets)
        }
