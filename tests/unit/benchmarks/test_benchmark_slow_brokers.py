"""The cases, the bounds and the table of `python -m benchmarks.slow_brokers`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import count

import pytest

from benchmarks.brokers import BROKERS, Target
from benchmarks.slow_brokers import __main__ as slow_brokers
from benchmarks.slow_brokers.__main__ import Run, describe
from benchmarks.slow_brokers.client import Costs
from benchmarks.slow_brokers.picture import Measured
from benchmarks.slow_brokers.plan import CLIENTS, RECORD_OVERHEAD, Case, Client
from benchmarks.workloads import Workload


def test_the_bound_is_five_requests_in_flight_to_each_broker_that_leads_a_partition() -> None:
    record = 1_000 + RECORD_OVERHEAD
    assert Case(1, 1_000, 250).bound() == pytest.approx(5 * 2**20 / record * 4)
    assert Case(3, 1_000, 250).bound() == pytest.approx(15 * 2**20 / record * 4)
    assert Case(12, 1_000, 500).bound() == pytest.approx(15 * 2**20 / record * 2)
    assert Case(3, 1_000, 0).bound() is None


def costs(delivered: int, out_of_order: int = 0) -> Costs:
    size = 40 * 1_024_000.0
    return Costs(
        *(2.0, 1.0, delivered, 2 * delivered, 0, out_of_order, 40.0, size, 250.0, 50_000_000), {}
    )


def test_the_table_shows_medians_the_part_of_the_bound_and_what_makes_a_run_void() -> None:
    case = Case(1, 1_000, 250)
    runs = [
        Run("aioproducer", 0.1, Measured(costs(each), 4.0)) for each in (40_000, 30_000, 41_000)
    ]
    section = describe(case, runs)
    assert section.rows == (
        (
            *("aioproducer", "20,000", "15,000..20,500", "96%", "25.00", "50.00", "1,000"),
            *("250.0", "5.0", "50", "-", "-", "0.1..0.1"),
        ),
    )
    assert len(section.headings) == len(section.rows[0])
    assert section.voids == ()
    void = Run("aioproducer", 0.1, Measured(costs(40_000, out_of_order=3), 4.0))
    mixed = describe(case, [void, *runs])
    assert mixed.voids == ("VOID aioproducer: 0 failed, 3 out of order",)
    assert mixed.rows == section.rows
    assert describe(case, [void]).rows == (("aioproducer", *["-"] * 12),)


def rounds_of(
    monkeypatch: pytest.MonkeyPatch, brokers: str, out_of_order: int = 0
) -> list[tuple[Case, list[Run]]]:
    """Two rounds of two clients, whose first run of all has records out of order."""
    numbers = count(1)

    @contextmanager
    def serving(_: Workload) -> Iterator[Target]:
        yield Target("here:9092", "here:9092")

    def run(case: Case, client: Client, *_: object) -> Run:
        number = next(numbers)
        found = costs(1_000 * number, out_of_order if number == 1 else 0)
        return Run(client.name, 0.0, Measured(found, 1.0))

    monkeypatch.setitem(BROKERS, brokers, lambda: nullcontext(serving))
    monkeypatch.setattr(slow_brokers, "_run", run)
    clients = [CLIENTS["aioproducer"], CLIENTS["confluent"]]
    options = argparse.Namespace(brokers=brokers, rounds=2)
    return [*slow_brokers.run_all([Case(1, 100, 0)], clients, options)]


@pytest.mark.parametrize(("brokers", "first"), [("mock", 1), ("kafka", 3)])
def test_real_brokers_warm_up_for_a_round(
    monkeypatch: pytest.MonkeyPatch, brokers: str, first: int
) -> None:
    [(_, runs)] = rounds_of(monkeypatch, brokers)
    assert [run.costs.delivered for run in runs] == [1_000 * (first + each) for each in range(4)]


def test_a_void_run_is_an_error_in_the_round_that_is_not_counted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SystemExit, match=r"aioproducer, in the round .* 3 are out of order"):
        rounds_of(monkeypatch, "kafka", out_of_order=3)


def test_a_distance_is_a_part_of_the_bound() -> None:
    assert Case(3, 1_000, 50, distance_ms=200).bound() == Case(3, 1_000, 250).bound()
    assert Case(3, 1_000, 0, distance_ms=200).workload().rtt_ms == 0
