"""Processes side by side take their free ports from ranges of their own."""

from __future__ import annotations

import pytest

from aioproducer.testing.ports import PORTS_VARIABLE, free_ports, port_range
from tests.support.side_by_side import part, take_ports_of_this_process


def test_free_ports_are_in_the_range_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    [first] = free_ports(1)
    monkeypatch.setenv(PORTS_VARIABLE, f"{first}-{first}")
    assert free_ports(1) == [first]
    with pytest.raises(OSError, match="only 1 of 2 ports are free"):
        free_ports(2)


@pytest.mark.parametrize("named", ["20000", "20000-", "200-100", "1-65536", "0-9", "ten-twenty"])
def test_what_is_no_range_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv(PORTS_VARIABLE, named)
    with pytest.raises(ValueError, match="a range such as 20000-23999"):
        free_ports(1)


def test_the_parts_of_a_range_have_no_port_in_common() -> None:
    parts = [part(range(100, 111), number, 3) for number in range(3)]
    assert parts == [range(100, 103), range(103, 106), range(106, 109)]


@pytest.mark.parametrize(("worker", "mine"), [("gw0", range(100, 105)), ("gw3", range(105, 110))])
def test_a_process_of_the_tests_takes_its_part(
    monkeypatch: pytest.MonkeyPatch, worker: str, mine: range
) -> None:
    """Number 3 of two stands for one that has ended."""
    monkeypatch.setenv(PORTS_VARIABLE, "100-109")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    take_ports_of_this_process()
    assert port_range() == mine


def test_one_process_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv(PORTS_VARIABLE, "100-109")
    take_ports_of_this_process()
    assert port_range() == range(100, 110)
