"""AddOffsetsToTxn: add a group's offsets to the transaction (protocol version 1). No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    CoordinatorRequest,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response
from aioproducer.errors import InvalidTxnStateError


@dataclass(frozen=True, slots=True)
class AddOffsetsToTxn(CoordinatorRequest):
    """Add a group's offsets to the transaction, before TxnOffsetCommit writes them."""

    group_id: str

    api_key: ClassVar[int] = 25
    reactions: ClassVar[Reactions] = {InvalidTxnStateError: Reaction.FATAL}
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    def describe(self) -> str:
        """The request in error messages."""
        return f"AddOffsetsToTxn of group {self.group_id!r}"

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        return context.schema.AddOffsetsToTxnRequest(
            **context.producer_fields(), group_id=self.group_id
        )

    def read(self, response: Any) -> Response:
        """The error code."""
        return Response(response.error_code)
