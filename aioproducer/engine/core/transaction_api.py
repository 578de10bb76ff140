"""Users' calls of transactions: each commands the state machine, and waits until it is done.

A cancelled wait, or its timeout, does not take the command back: the sender continues with it,
and the next call returns the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Final
from uuid import UUID

from aioproducer.engine.client.elsewhere import elsewhere
from aioproducer.engine.metrics import ProducerMetrics, TransactionCall
from aioproducer.engine.transactions.group_offsets import GroupOffsets, PendingFetch
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import RequestSource
from aioproducer.engine.transactions.transaction import Ending
from aioproducer.engine.transactions.transaction import TransactionState as State
from aioproducer.errors import (
    CommitUnconfirmedError,
    FatalTransactionError,
    IllegalStateError,
    ProducerClosedError,
    ProducerError,
    ProducerTimeoutError,
)
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import ModuleLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)

logger = ModuleLogger(__name__)


@dataclass(frozen=True, slots=True)
class SenderCommands:
    """The commands of a :class:`TransactionApi` to the parts that send."""

    wake: Callable[[], None]
    """Wake the sender."""
    flush: Callable[[], None]
    """Let no record linger."""
    allow_sending: Callable[[bool], None]
    """Allow records, or forbid them while no transaction is open."""
    describe_delay: Callable[[ProducerError | None], str]
    """The text of a timeout's reason, from the last error of a request."""
    topic_ids: Callable[[Iterable[str]], Mapping[str, UUID]]
    """The ids of topics; none if one of them is unknown."""


_MOST_OFFSETS: Final = 1_000
"""The most offsets of a request. Each takes microseconds to write, and the event loop waits for the
whole request."""
_IN_A_BLOCK: Final = "use `async with producer.transaction():`"


@elsewhere(__enter__=_IN_A_BLOCK, __await__=_IN_A_BLOCK)
class TransactionBlock(AbstractAsyncContextManager[None]):
    """The block of ``producer.transaction()``."""

    def __init__(self, block: AbstractAsyncContextManager[None]) -> None:
        self._block = block

    def __aenter__(self) -> Awaitable[None]:  # type: ignore[override]  # without a coroutine
        return self._block.__aenter__()

    def __aexit__(  # type: ignore[override]
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Awaitable[bool | None]:
        return self._block.__aexit__(kind, error, traceback)


class TransactionApi:
    """The calls of one producer. ``max_block``: seconds that a call without timeout waits."""

    def __init__(
        self,
        manager: TransactionManager,
        offsets: GroupOffsets,
        sender: SenderCommands,
        max_block: float,
        metrics: ProducerMetrics,
        clock: Callable[[], float],
    ) -> None:
        self.manager = manager
        self.offsets = offsets
        """The offsets of groups that callers wait for."""
        self._sender = sender
        self._max_block = max_block
        self._metrics = metrics
        self._clock = clock
        self._waiters: list[asyncio.Future[None]] = []
        self._refusal: ProducerError | None = None
        self._forked = False
        """True in a forked child: the transaction is the parent's."""
        self._left_open = False
        self._bulks = 0
        """The number of ``send_many()`` under way."""
        self.on_abort: Callable[[], None] = lambda: None
        """Called when an abort begins: records on their way here are to be discarded."""
        self.records_come: Callable[[], Awaitable[object]] | None = None
        """Waits for records on their way here, which a commit delivers; None: there are none."""
        manager.on_state = self._allow_sending
        self._allow_sending(manager.state)

    # --- waiting ---------------------------------------------------------------------------

    def _allow_sending(self, state: State) -> None:
        """Let records take the fast path only where :meth:`check_open` lets them pass."""
        self._sender.allow_sending(state is State.IN_TRANSACTION)

    def changed(self) -> None:
        """Wake waiting calls: the state may have changed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def login_refused(self, error: ProducerError) -> None:
        """Raise ``error`` in calls that wait for the producer id: all brokers refuse the login."""
        if self.manager.state is State.INITIALIZING:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(anew(error))

    def close(self, error: ProducerError) -> None:
        """Raise ``error`` in all waiting calls: the state will not change any more."""
        self._refusal = error
        self.changed()

    def disown(self, error: ProducerError) -> None:
        """End no transaction, and raise ``error`` in all calls: this process is a fork."""
        self._refusal, self._forked = error, True

    async def _until(
        self,
        reached: Callable[[], bool],
        timeout: float | None,
        doing: str,
        then: str,
        source: RequestSource | None = None,
    ) -> None:
        bound = self._max_block if timeout is None else timeout
        try:
            async with PatientTimeout(bound):
                while not reached():
                    if self._refusal is not None:
                        raise anew(self._refusal)
                    self._sender.wake()
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            last = (source or self.manager).last_error
            why = self._sender.describe_delay(last)
            raise ProducerTimeoutError(
                f"{self.manager}: {doing} is not done within {duration(bound)}"
                f"{'' if timeout is not None else ' (max_block_ms)'}{why}. {then}"
            ) from last

    @contextmanager
    def _timed(self, call: TransactionCall) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._metrics.transaction_call_ended(call, now - began, now)

    # --- the calls -------------------------------------------------------------------------

    async def initialize(self, timeout: float | None) -> None:
        """Get the producer id and an epoch, unless the producer has them."""
        with self._timed("init"):
            await self._initialize(timeout)

    async def _initialize(self, timeout: float | None) -> None:
        manager = self.manager
        if manager.state is State.UNINITIALIZED:
            manager.initialize()
        await self._until(
            lambda: manager.state is not State.INITIALIZING,
            timeout,
            "init_transactions()",
            "Check bootstrap_servers, and the brokers",
        )
        if manager.state is State.FATAL_ERROR:
            raise manager.refusal("initialize transactions")

    async def begin(self, *, shared: bool) -> None:
        """Open a transaction, once the one before has ended."""
        with self._timed("begin"):
            await self._finish_unacknowledged()
            if self.manager.state is State.INITIALIZING:
                await self._initialize(None)
            self._check_no_bulk("begin a transaction")
            while not self.manager.begin(shared=shared):
                await self._initialize(None)
            self.changed()

    async def _finish_unacknowledged(self) -> None:
        """Wait for a commit or abort whose caller has left, and raise its failure."""
        ending = self.manager.ending
        if ending is not None and not ending.acknowledged:
            await self._end(ending, None)

    async def commit(self, timeout: float | None) -> None:
        """Commit; or take up a commit whose caller was cancelled or timed out.

        :mod:`aioproducer.engine.transactions` lists the steps.
        """
        if self.records_come is not None and self.manager.state is State.IN_TRANSACTION:
            began = self._clock()
            await self._let_records_come(self.records_come, timeout)
            if timeout is not None:
                timeout = max(0.0, timeout - (self._clock() - began))
        ending = self.manager.ending
        if ending is None or ending.acknowledged or not ending.committed:
            self._check_no_bulk("commit")
            ending = self.manager.commit()
            self.changed()
            self._sender.flush()
        await self._end(ending, timeout)

    async def _let_records_come(
        self, records_come: Callable[[], Awaitable[object]], timeout: float | None
    ) -> None:
        bound = self._max_block if timeout is None else timeout
        try:
            async with PatientTimeout(bound):
                await records_come()
        except TimeoutError:
            late = ProducerTimeoutError(
                f"{self.manager}: commit_transaction() has not begun within {duration(bound)}"
                f"{'' if timeout is not None else ' (max_block_ms)'}: records sent before wait for "
                "memory. Call commit_transaction() again, or abort_transaction()"
            )
            raise CommitUnconfirmedError(str(late)) from late

    async def abort(self, timeout: float | None) -> None:
        """Abort; or take up an abort whose caller was cancelled or timed out."""
        ending = self.manager.ending
        if ending is not None and not ending.acknowledged and ending.committed and ending.done:
            ending.acknowledged = True
            raise IllegalStateError(f"{self.manager}: can't abort, the transaction was committed")
        if ending is None or ending.acknowledged or ending.committed:
            ending = self.manager.abort()
            self.changed()
            self.on_abort()
        await self._end(ending, timeout)

    async def _end(self, ending: Ending, timeout: float | None) -> None:
        doing = "commit_transaction()" if ending.committed else "abort_transaction()"
        try:
            with self._timed("commit" if ending.committed else "abort"):
                await self._until(
                    lambda: not ending.open,
                    timeout,
                    doing,
                    f"The sender continues; the outcome is not known yet: `await {doing}` again",
                )
        except ProducerError as error:
            if ending.committed:
                raise CommitUnconfirmedError(str(error)) from error
            raise
        ending.acknowledged = True
        if isinstance(ending.error, IllegalStateError):
            raise anew(ending.error)
        if ending.error is not None:
            doing = "commit" if ending.committed else "abort"
            raise self.manager.failure(doing, ending.error)

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        timeout: float | None,
    ) -> None:
        """Write consumed offsets with the transaction."""
        if not offsets:
            self.manager.check_open("send offsets")
            return
        pending = [
            self.manager.add_offsets(
                some, group, self._sender.topic_ids({each[0] for each in some})
            )
            for some in _portions(offsets)
        ]
        with self._timed("send_offsets"):
            await self._until(
                lambda: all(self.manager.is_written(each) for each in pending),
                timeout,
                "send_offsets_to_transaction()",
                "Abort the transaction",
            )

    async def fetch_offsets(
        self, group_id: str, partitions: frozenset[TopicPartition], timeout: float | None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group; an open transaction stays as it is."""
        self.manager.check_alive("fetch offsets")
        if not partitions:
            return {}
        pending = self.offsets.fetch(group_id, partitions)
        try:
            await self._until(
                lambda: self._is_over(pending),
                timeout,
                "committed_offsets()",
                "Try again",
                self.offsets,
            )
        except ProducerClosedError:
            raise ProducerClosedError(
                f"{self.manager}: the producer was closed while committed_offsets() waited"
            ) from None
        finally:
            self.offsets.give_up(pending)
        if pending.error is not None:
            raise anew(pending.error)
        assert pending.offsets is not None
        return pending.offsets

    def _is_over(self, pending: PendingFetch) -> bool:
        if pending.offsets is None and pending.error is None:
            self.manager.check_alive("fetch offsets")
            return False
        return True

    def share(self, *, over: bool = False) -> TransactionHandle:
        """The handle by which other producers write into the open transaction."""
        return self.manager.hand_out(over=over)

    # --- many records ----------------------------------------------------------------------

    @contextmanager
    def hold_commit(self) -> Iterator[None]:
        """A ``send_many()``: until it is over, its transaction is not committed."""
        self.check_open()
        self._bulks += 1
        try:
            yield
        finally:
            self._bulks -= 1

    def _check_no_bulk(self, doing: str) -> None:
        if self._bulks:
            raise IllegalStateError(
                f"{self.manager}: can't {doing}, a send_many() of the transaction is under way; "
                "await it first, or cancel it"
            )

    def check_open(self) -> None:
        """Raise the reason if no record can be sent now."""
        self.manager.check_open()

    def check_own_part(self, doing: str) -> None:
        """Raise the error of a failed record, if another producer may commit the transaction."""
        if self.manager.joined and self.manager.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            raise self.manager.refusal(doing)

    def record_failed(self, error: ProducerError, *, refused: bool = False) -> None:
        """A record of the open transaction has failed.

        ``refused``: ``send()`` has raised ``error``, and its caller may swallow it.
        """
        if self.manager.state is State.IN_TRANSACTION:
            self.manager.delivery_failed(error, refused=refused)
            self.changed()

    def leave(self) -> None:
        """The producer is closed: see :meth:`TransactionManager.leave`."""
        if self.manager.leave():
            logger.warning(
                "%s: closed in a transaction, which is aborted",
                self.manager,
                transactional_id=self.manager.handle.transactional_id,
            )
            self._left_open = True
            self.changed()
        self._sender.wake()

    # --- the block -------------------------------------------------------------------------

    def block(self, *, shared: bool) -> AbstractAsyncContextManager[None]:
        """A transaction that is committed at the end, and aborted on any exception."""
        return TransactionBlock(self._block(shared=shared))

    @asynccontextmanager
    async def _block(self, *, shared: bool) -> AsyncIterator[None]:
        before = self.manager.ending
        abandoned = before is not None and not before.acknowledged
        try:
            await self.begin(shared=shared)
        except ProducerError:
            if abandoned and self.manager.state is State.ABORTABLE_ERROR:
                await self.abort(None)
            raise
        mine = self.manager.begun
        try:
            yield
        except BaseException as error:
            if self._is_to_be_ended(mine) and not self._forked:
                await self._abort_after(error)
            raise
        if self._left_open or self._forked:
            closed = ProducerClosedError(
                f"{self.manager}: the producer was closed in the transaction, which is aborted"
            )
            raise anew(self._refusal or closed)
        if self._is_to_be_ended(mine) or self._is_unacknowledged_commit(mine):
            await self._commit_or_abort()
        else:
            self.check_own_part("leave it to others")

    def _is_to_be_ended(self, number: int) -> bool:
        """True if this transaction is the present one, and no call has begun to end it."""
        present = self.manager.begun == number and not self.manager.joined
        return present and (self.manager.is_open or self.manager.state is State.FATAL_ERROR)

    def _is_unacknowledged_commit(self, number: int) -> bool:
        ending = self.manager.ending
        present = self.manager.begun == number
        return present and ending is not None and ending.committed and not ending.acknowledged

    async def _commit_or_abort(self) -> None:
        try:
            await self.commit(None)
        except ProducerError as error:
            if self.manager.is_open:
                await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        """Abort because of ``error``; a failure of the abort is logged and added as a note."""
        try:
            await self.abort(None)
        except ProducerError as failure:
            fatal = isinstance(failure, FatalTransactionError)
            if fatal and isinstance(error, ProducerError):
                raise failure from error
            logger.error("%s: the abort failed: %s", self.manager, failure, error=failure)
            error.add_note(f"The transaction was not aborted: {failure}")


def _portions(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> Iterator[Mapping[TopicPartition, OffsetAndMetadata]]:
    """The offsets, for as many requests as they need."""
    left = iter(offsets.items())
    while portion := dict(islice(left, _MOST_OFFSETS)):
        yield portion
