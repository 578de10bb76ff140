"""Steps of a world whose producer is transactional."""

from __future__ import annotations

import pytest

from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.transaction_driver import TransactionDriver
from aioproducer.engine.transactions.requests import CoordinatorRequest, EndTxn
from aioproducer.model import TopicPartition
from tests.support.world import PAYMENTS
from tests.unit.sender.world import SenderWorld, answered

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
COMMIT = EndTxn(committed=True, producer=PAYMENTS)
ABORT = EndTxn(committed=False, producer=PAYMENTS)
CONCURRENT, LOADING, NOT_COORDINATOR, FENCED, TOO_LARGE, NOT_ENOUGH = 51, 14, 16, 90, 10, 19
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def requester(world: SenderWorld) -> TransactionDriver:
    assert isinstance(world.requester, TransactionDriver)
    return world.requester


async def written(world: SenderWorld, *partitions: int) -> None:
    """A record for each of ``partitions`` is in the log, and in the transaction."""
    futures = [world.send(partition=partition) for partition in partitions or (0,)]
    await world.turn()
    if world.manager.handle.version == 1:
        await answered(world)
    for sent in world.requests(ProduceRequest):
        await world.answer(sent)
    assert all(future.done() for future in futures)


async def silent(world: SenderWorld, seconds: float = 0.0) -> bool:
    """Whether no coordinator is asked, for ``seconds``."""
    await world.turn(seconds)
    return world.requests(CoordinatorRequest) == []
