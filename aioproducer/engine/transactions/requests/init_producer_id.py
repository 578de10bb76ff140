"""InitProducerId: get the producer id and a new epoch (KIP-98, KIP-360). No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    CoordinatorRequest,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response, assigned_producer_id
from aioproducer.errors import (
    TransactionAbortableError,
    UnknownProducerIdError,
    UnsupportedVersionError,
)

_FIRST_VERSION_WITH_EPOCH_BUMP: Final = 3


@dataclass(frozen=True, slots=True)
class InitProducerId(CoordinatorRequest):
    """Assign the producer id and a new epoch; older holders of the transactional id are fenced."""

    epoch_bump: bool
    """True: only if the epoch is the newest (KIP-360). False: fence the present owner."""

    api_key: ClassVar[int] = 22
    reactions: ClassVar[Reactions] = {
        TransactionAbortableError: Reaction.FATAL,
        UnknownProducerIdError: Reaction.FATAL,
    }
    otherwise: ClassVar[Reaction] = Reaction.FATAL

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        return context.schema.InitProducerIdRequest(
            transactional_id=context.handle.transactional_id,
            transaction_timeout_ms=context.timeout_ms,
            **_present_epoch(context) if self.epoch_bump else {},
        )

    def read(self, response: Any) -> Response:
        """The producer id and its epoch."""
        return assigned_producer_id(
            response.error_code, response.producer_id, response.producer_epoch
        )


def _present_epoch(context: BuildContext) -> dict[str, Any]:
    handle = context.handle
    if context.version < _FIRST_VERSION_WITH_EPOCH_BUMP:
        raise UnsupportedVersionError(
            f"transactional id {handle.transactional_id!r}: a new epoch is needed after "
            "the transaction that failed, and the broker is too old to give it (KIP-360, Kafka "
            "2.5): close the producer and make another one"
        )
    return {"producer_id": handle.producer_id, "producer_epoch": handle.epoch}
