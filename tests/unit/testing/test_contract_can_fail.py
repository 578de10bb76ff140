"""The tests of the contract notice producers that break it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aioproducer.engine.sender.produce import PartitionResult
from aioproducer.testing.mock_producer.cluster import InMemoryCluster, InMemoryCoordinator
from aioproducer.testing.mock_producer.network import Journal
from tests.support.contract import (
    CoordinatorContract,
    MockKit,
    OutcomeContract,
    SendingContract,
    TransactionContract,
)

Break = Callable[[pytest.MonkeyPatch], None]


def nothing_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InMemoryCluster, "write", lambda *_: PartitionResult(0, 0, -1))


def one_partition_alone(patch: pytest.MonkeyPatch) -> None:
    count = InMemoryCluster._partitions
    patch.setattr(InMemoryCluster, "_partitions", lambda *given: count(*given) and 1)


def aborts_commit(patch: pytest.MonkeyPatch) -> None:
    end = InMemoryCoordinator._end
    patch.setattr(InMemoryCoordinator, "_end", lambda self, *, committed: end(self, committed=True))


def nobody_is_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InMemoryCoordinator, "fence", lambda self: None)


def errors_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "arm", lambda self, error: True)


def records_are_late(patch: pytest.MonkeyPatch) -> None:
    history: Any = vars(InMemoryCluster)["history"]
    patch.setattr(InMemoryCluster, "history", property(lambda self: history.fget(self)[:-1]))


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (nothing_is_written, SendingContract().test_the_fields_of_a_record_arrive),
        (
            nothing_is_written,
            SendingContract().test_a_future_of_the_loop_gets_the_place_of_the_record,
        ),
        (one_partition_alone, SendingContract().test_keys_have_the_partitions_of_javas_producer),
        (records_are_late, SendingContract().test_a_cancelled_record_in_a_batch_is_sent),
        (aborts_commit, TransactionContract().test_an_exception_aborts),
        (nobody_is_fenced, CoordinatorContract().test_a_fenced_producer),
        (errors_are_lost, OutcomeContract().test_an_error_of_the_cluster_is_in_the_future),
    ],
    ids=lambda each: each.__name__,
)
async def test_a_broken_producer_is_noticed(
    broken: Break, check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await check(MockKit())
    broken(monkeypatch)
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        await check(MockKit())
