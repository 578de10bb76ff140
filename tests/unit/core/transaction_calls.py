"""The calls of a transactional producer whose sender is played."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from aioproducer.engine.core.transaction_api import SenderCommands, TransactionApi
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.transactions.requests import EndTxn
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import (
    DeliveryTimeoutError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
)
from aioproducer.model import TransactionHandle
from tests.support.waiting import settle, started
from tests.unit.transactions.world import ONE, TransactionWorld

S = TransactionState
FAILED = DeliveryTimeoutError("orders-0: not acknowledged")
CLOSED = ProducerClosedError("closed")
LONG, SHORT = 30.0, 0.01


class Calls(TransactionApi):
    """The calls of a producer whose sender is played."""

    def __init__(self, version: int = 1, joined: TransactionHandle | None = None) -> None:
        self.world = TransactionWorld(version, joined)
        self.wakes = 0
        self.closings = 0
        self.delay = ""
        self.sending = False
        self.now = 100.0
        self.metrics = ProducerMetrics(now=self.now)
        super().__init__(
            self.world.manager,
            self.world.group_offsets,
            SenderCommands(
                wake=self._woken,
                flush=self._batches_closed,
                allow_sending=self._sending_allowed,
                describe_delay=lambda error: f": {error}" if error else self.delay,
                topic_ids=lambda topics: {},
            ),
            max_block=LONG,
            metrics=self.metrics,
            clock=lambda: self.now,
        )

    def _woken(self) -> None:
        self.wakes += 1

    def _batches_closed(self) -> None:
        self.closings += 1

    def _sending_allowed(self, is_open: bool) -> None:
        self.sending = is_open

    def batch_fails(self, error: ProducerError = FAILED) -> None:
        self.manager.delivery_failed(error)
        self.changed()

    def answer(self, code: int = 0, **said: Any) -> None:
        """One request to the transaction coordinator, and its answer."""
        while not isinstance(self.world.next(), EndTxn) and code == 0:
            self.world.exchange()
        self.world.exchange(code, **said)
        self.changed()

    def sender_runs(self) -> None:
        """Everything is answered without error."""
        self.world.run()
        self.changed()

    async def during(self, call: Coroutine[Any, Any, Any]) -> None:
        """The whole ``call``, whose requests are all answered."""
        task = started(call)
        for _ in range(20):
            await settle()
            if task.done():
                break
            self.sender_runs()
        await task


async def waiting(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """``call``, which waits."""
    task = started(call)
    await settle()
    assert not task.done()
    return task


async def cancelled(call: Coroutine[Any, Any, Any]) -> None:
    """``call`` is begun, and its caller gives up."""
    task = await waiting(call)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ready(version: int = 1) -> Calls:
    calls = Calls(version)
    await calls.during(calls.initialize(None))
    return calls


async def opened(version: int = 1, *, writes: bool = True, shared: bool = False) -> Calls:
    """A transaction is open, with a partition in it."""
    calls = await ready(version)
    await calls.begin(shared=shared)
    if shared:
        calls.share()
    if writes:
        calls.world.write(ONE)
    return calls


async def give_up(calls: Calls, how: str, *, commit: bool = True) -> None:
    call = calls.commit if commit else calls.abort
    if how == "cancelled":
        await cancelled(call(None))
        return
    with pytest.raises(ProducerTimeoutError, match="the outcome is not known yet: `await"):
        await call(SHORT)


WAIT_ENDS = pytest.mark.parametrize("how", ["cancelled", "timed out"])


async def in_block(calls: Calls, does: Any = None, *, shared: bool = False) -> None:
    async with calls.block(shared=shared):
        calls.world.write(ONE)
        if does is not None:
            result = does()
            if asyncio.iscoroutine(result):
                await result


def ends(calls: Calls) -> list[bool]:
    """The ends that were asked for: whether each was a commit."""
    return [each.committed for each in calls.world.asked if isinstance(each, EndTxn)]


async def wait_for(task: asyncio.Task[Any]) -> None:
    await task
