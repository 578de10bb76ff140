"""EndTxn: commit or abort the transaction (KIP-98, KIP-890). No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    CoordinatorRequest,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import (
    NO_PRODUCER_ID,
    Response,
    assigned_producer_id,
)
from aioproducer.errors import InvalidTxnStateError, UnknownServerError


@dataclass(frozen=True, slots=True)
class EndTxn(CoordinatorRequest):
    """Commit or abort. In protocol version 2 the response brings the next transaction's epoch."""

    committed: bool

    api_key: ClassVar[int] = 26
    highest_version_in_protocol_1: ClassVar[int | None] = 4
    reactions: ClassVar[Reactions] = {
        InvalidTxnStateError: Reaction.ABORT,
        # The error leaves the outcome of the transaction open, and the same end may be requested
        # twice. A coordinator responds so, for one, while it fences the producer (Kafka 4.3).
        UnknownServerError: Reaction.RETRY,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        return context.schema.EndTxnRequest(**context.producer_fields(), committed=self.committed)

    def read(self, response: Any) -> Response:
        """The error code, and from version 5 on the producer id and epoch that come next."""
        code = response.error_code
        producer_id = response.producer_id
        if producer_id == NO_PRODUCER_ID:
            return Response(code)
        return assigned_producer_id(code, producer_id, response.producer_epoch)
