"""The two tables, workloads and clients, fit together and mean the same in every process."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.__main__ import main
from benchmarks.clients import CLIENTS
from benchmarks.clients.driver import count_futures
from benchmarks.workloads import WORKLOADS, Workload


def test_settings_name_workloads_that_exist() -> None:
    for client in CLIENTS.values():
        assert client.settings.keys() <= WORKLOADS.keys()


def test_every_client_waits_for_all_replicas() -> None:
    for client in CLIENTS.values():
        if not client.ours:  # ours has it as its default
            assert {settings["acks"] for settings in client.settings.values()} == {"all"}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("records", [1, 1_000, 2_500])
def test_values_are_the_same_every_time(workload: Workload, records: int) -> None:
    values = workload.values(records)
    assert len(values) == records
    assert {len(value) for value in values} == {workload.value_bytes}
    assert values == workload.values(records)


class _Result:
    def __init__(self, offset: int) -> None:
        self.offset = offset


async def test_only_a_future_with_an_offset_is_a_confirmation() -> None:
    loop = asyncio.get_running_loop()
    delivered, nowhere, failed, cancelled, pending = (loop.create_future() for _ in range(5))
    delivered.set_result(_Result(offset=0))
    nowhere.set_result(_Result(offset=-1))
    failed.set_exception(OSError("gone"))
    cancelled.cancel()
    fates = count_futures([delivered, pending])
    assert (fates.confirmed, fates.failed) == (1, 0)
    fates = count_futures([failed, nowhere, cancelled, delivered])
    assert (fates.confirmed, fates.failed) == (1, 3)
    assert repr(fates.first_error) == "OSError('gone')"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workloads", "bulk,nothing"], "'nothing' is none of bulk"),
        (["--clients", "kafkacat"], "'kafkacat' is none of aioproducer"),
        (["--rounds", "0"], "less than 1"),
    ],
)
def test_a_wrong_option_is_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err
