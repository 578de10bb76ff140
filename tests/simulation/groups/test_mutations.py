"""Faults that are put into the consumer on purpose break promises in the lives that are named."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioproducer.consumer.assignment import Assignment
from aioproducer.consumer.commits import Commits
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.subscription import GroupTopics, Subscription
from aioproducer.consumer.transactions import Transactions
from aioproducer.consumer.work_watch import WorkWatch
from tests.simulation.groups.life import lived
from tests.simulation.groups.plan import make_plan

Patch = pytest.MonkeyPatch


def work_is_acknowledged_at_once(patch: Patch) -> None:
    patch.setattr(Progress, "_offset", Progress.position)


def a_failed_record_is_acknowledged(patch: Patch) -> None:
    patch.setattr(Progress, "leave", Progress.acknowledge)


def a_revocation_waits_for_nothing(patch: Patch) -> None:
    async def finished(self: Assignment, partitions: Any) -> None: ...

    patch.setattr(Assignment, "_finished", finished)


def a_revocation_commits_nothing(patch: Patch) -> None:
    revoked = Assignment.revoked

    async def without(self: Assignment, partitions: Any) -> None:
        with Patch.context() as inner:
            inner.setattr(Commits, "commit_if_possible", _nothing)
            await revoked(self, partitions)

    patch.setattr(Assignment, "revoked", without)


async def _nothing(*_: Any) -> None: ...


def lost_partitions_are_read_on(patch: Patch) -> None:
    patch.setattr(Assignment, "lost", lambda self: None)


def an_aborted_work_does_not_come_again(patch: Patch) -> None:
    patch.setattr(Assignment, "rewind", lambda self: self._progress.finish())


def positions_wait_for_records(patch: Patch) -> None:
    patch.setattr(Transactions, "_commit_positions", _nothing)


def a_record_hangs_once(patch: Patch) -> None:
    """The watch marks the place of a record, which may come again and hang again."""
    give_up, noticed = WorkWatch._give_up, dict[WorkWatch, Any]()

    async def once(self: WorkWatch, *place: Any) -> None:
        if noticed.get(self) != place:
            noticed[self] = place
            await give_up(self, *place)

    patch.setattr(WorkWatch, "_give_up", once)


def a_subscription_keeps_what_it_had(patch: Patch) -> None:
    subscribe = GroupTopics.subscribe

    def grow(self: GroupTopics, subscription: Subscription) -> bool:
        both = *self._subscription.wanted, *subscription.wanted
        return subscribe(self, Subscription(both, "consumer.subscribe"))

    patch.setattr(GroupTopics, "subscribe", grow)


MUTATIONS: Final[dict[Callable[[Patch], None], int]] = {
    work_is_acknowledged_at_once: 1,
    a_failed_record_is_acknowledged: 14,
    a_revocation_waits_for_nothing: 2_935,
    a_revocation_commits_nothing: 70,
    lost_partitions_are_read_on: 41,
    an_aborted_work_does_not_come_again: 3_088,
    positions_wait_for_records: 0,
    a_record_hangs_once: 4_038,
    a_subscription_keeps_what_it_had: 5_001,
}
"""Each with the seed of a life that finds it."""


pytestmark = pytest.mark.source_form


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_a_life_finds(mutation: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    assert lived(make_plan(MUTATIONS[mutation]))


def first_seed(mutation: Callable[[Patch], None], begin: int, end: int) -> int | None:
    """The first life that breaks a promise with ``mutation``."""
    with Patch.context() as patch:
        mutation(patch)
        return next((seed for seed in range(begin, end) if lived(make_plan(seed))), None)


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    for each in MUTATIONS:
        print(each.__name__, first_seed(each, *map(int, sys.argv[1:3])), flush=True)
