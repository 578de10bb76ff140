"""The requests of a transactional producer to its coordinators, one file each. No I/O."""

from aioproducer.engine.transactions.requests.add_offsets_to_txn import AddOffsetsToTxn
from aioproducer.engine.transactions.requests.add_partitions_to_txn import AddPartitionsToTxn
from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    Coordinator,
    CoordinatorRequest,
    CoordinatorType,
    group_coordinator,
)
from aioproducer.engine.transactions.requests.end_txn import EndTxn
from aioproducer.engine.transactions.requests.find_coordinator import FindCoordinator
from aioproducer.engine.transactions.requests.init_producer_id import InitProducerId
from aioproducer.engine.transactions.requests.offset_fetch import OffsetFetch
from aioproducer.engine.transactions.requests.reaction import COMMON_REACTIONS, Reaction
from aioproducer.engine.transactions.requests.response import Response
from aioproducer.engine.transactions.requests.txn_offset_commit import TxnOffsetCommit

__all__ = [
    "COMMON_REACTIONS",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "BuildContext",
    "Coordinator",
    "CoordinatorRequest",
    "CoordinatorType",
    "EndTxn",
    "FindCoordinator",
    "InitProducerId",
    "OffsetFetch",
    "Reaction",
    "Response",
    "TxnOffsetCommit",
    "group_coordinator",
]
