"""The cases, the bounds and the table of `python -m benchmarks.slow_brokers`."""

from __future__ import annotations

import pytest

from benchmarks.slow_brokers import client as drivers
from benchmarks.slow_brokers.__main__ import Run, describe, main
from benchmarks.slow_brokers.client import Costs
from benchmarks.slow_brokers.plan import CLIENTS, RECORD_OVERHEAD, Case, Client


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_each_client_has_its_driver(client: Client) -> None:
    assert hasattr(drivers, client.driver)


def test_the_bound_is_five_requests_in_flight_to_each_broker_that_leads_a_partition() -> None:
    record = 1_000 + RECORD_OVERHEAD
    assert Case(1, 1_000, 250).bound() == pytest.approx(5 * 2**20 / record * 4)
    assert Case(3, 1_000, 250).bound() == pytest.approx(15 * 2**20 / record * 4)
    assert Case(12, 1_000, 500).bound() == pytest.approx(15 * 2**20 / record * 2)
    assert Case(3, 1_000, 0).bound() is None


def costs(delivered: int, out_of_order: int = 0) -> Costs:
    return Costs(2.0, 1.0, delivered, 0, out_of_order, 40.0, 40 * 1_024_000.0, 50_000_000, {})


def test_the_table_shows_medians_the_part_of_the_bound_and_what_makes_a_run_void() -> None:
    case = Case(1, 1_000, 250)
    runs = [Run("aioproducer", 0.1, costs(each)) for each in (40_000, 30_000, 41_000)]
    _, _, row = describe(case, runs)
    assert row.split() == [
        *("aioproducer", "20,000", "15,000..", "20,500", "96%", "25.00", "1,000", "5.0", "50"),
        "0.1..0.1",
    ]
    _, _, row = describe(case, [Run("aioproducer", 0.1, costs(40_000, out_of_order=3))])
    assert row.endswith("VOID: 0 failed, 3 out of order")


@pytest.mark.slow
@pytest.mark.mock_cluster
def test_a_small_run(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka")
    clients = "aioproducer,aioproducer-beats,confluent"
    case = ["--partitions", "3", "--value-bytes", "1000", "--rtt-ms", "10", "--clients", clients]
    assert main([*case, "--rounds", "1", "--warm-up", "0.2", "--seconds", "0.5"]) == 0
    output = capsys.readouterr().out
    assert all(f"\n{name} " in output for name in clients.split(","))
    assert "VOID" not in output


def test_real_brokers_are_not_asked_to_be_slow() -> None:
    with pytest.raises(SystemExit, match="only mock brokers can be told to be slow"):
        main(["--brokers", "kafka"])
