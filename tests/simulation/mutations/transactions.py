"""Faults of transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aioproducer.engine.core.transaction_api import TransactionApi
from aioproducer.engine.sender.transaction_driver import TransactionDriver
from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.transaction import Transaction
from aioproducer.engine.transactions.transaction import TransactionState as State
from tests.simulation.mutations.patch import Mutation, Patch


def partition_not_added(patch: Patch) -> None:
    """Batches leave before their partition is in the transaction (version 1)."""

    def mutant(add: Any) -> Any:
        def added(self: Transaction, partition: Any) -> bool:
            if self._producer.version == 1:
                self._partitions.add(partition)
                self._known = True
            return bool(add(self, partition))

        return added

    patch(Transaction, "add_partition", mutant)


def commit_before_flush(patch: Patch) -> None:
    """EndTxn leaves while records are on their way."""

    def mutant(next_request: Any) -> Any:
        return lambda self, *, flushed: next_request(self, flushed=True)

    patch(TransactionManager, "next_request", mutant)


def offsets_outside_of_the_transaction(patch: Patch) -> None:
    """Consumed offsets are not written with the transaction."""

    def mutant(add: Any) -> Any:
        def added(self: Transaction, *given: Any) -> Any:
            pending = add(self, *given)
            self._offsets.remove(pending)
            pending.written = True
            return pending

        return added

    patch(Transaction, "add_offsets", mutant)


def failed_record_committed(patch: Patch) -> None:
    """A transaction is committed although one of its records has failed."""
    patch(TransactionManager, "delivery_failed", lambda _: lambda self, error: None)


def abort_commits(patch: Patch) -> None:
    """An abort is not told to the coordinator: the transaction goes on into the next one."""

    def mutant(needs_end: Any) -> Any:
        return lambda self: self.state is not State.ABORTING and needs_end(self)

    patch(TransactionManager, "_needs_end", mutant)


def commit_not_awaited(patch: Patch) -> None:
    """commit_transaction() returns before the coordinator has answered."""

    def mutant(end: Any) -> Any:
        async def ended(self: TransactionApi, ending: Any, timeout: float | None) -> None:
            present = self.manager.ending
            if ending.committed and present is not None and present is ending:
                present.acknowledged = True
            else:
                await end(self, ending, timeout)

        return ended

    patch(TransactionApi, "_end", mutant)


def lost_number_forgotten(patch: Patch) -> None:
    """After a record was given up the next transaction keeps the epoch (version 1)."""

    def mutant(_lost: Any) -> Any:
        return lambda self: None

    patch(TransactionManager, "numbers_lost", mutant)


def fenced_producer_goes_on(patch: Patch) -> None:
    """A fenced producer takes its transactional id back."""

    def fails(fail: Any) -> Any:
        def failed(self: TransactionManager, error: Any) -> None:
            if self.state in (State.IN_TRANSACTION, State.COMMITTING):
                self.handle = replace(self.handle, producer_id=-1, epoch=-1)
                self._require_abort(error)
            else:
                fail(self, error)

        return failed

    def steps(next_step: Any) -> Any:
        def step(self: TransactionManager, flushed: bool) -> Any:
            if self.state is State.ABORTING and flushed and self.handle.producer_id < 0:
                self._ended()
            return next_step(self, flushed)

        return step

    patch(TransactionManager, "fail", fails)
    patch(TransactionManager, "_next_step", steps)


def offsets_not_waited_for(patch: Patch) -> None:
    """A commit that no coordinator knows of is done while offsets wait to be written."""

    def mutant(_complete: Any) -> Any:
        def completed(self: TransactionManager, *, flushed: bool) -> None:
            ends = self.state in (State.COMMITTING, State.ABORTING)
            if flushed and ends and not self._needs_end:
                self._ended()

        return completed

    patch(TransactionManager, "complete_unknown", mutant)


def partition_added_in_a_later_round(patch: Patch) -> None:
    """A batch whose backoff is over waits until something else happens before its partition is
    added (version 1)."""
    patch(TransactionDriver, "_batch_waits", lambda _: lambda self: None)


MUTATIONS: tuple[Mutation, ...] = (
    offsets_not_waited_for,
    partition_not_added,
    commit_before_flush,
    offsets_outside_of_the_transaction,
    failed_record_committed,
    abort_commits,
    commit_not_awaited,
    lost_number_forgotten,
    fenced_producer_goes_on,
    partition_added_in_a_later_round,
)
