"""The record of a measurement: commit, machine, date and medians."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.history import HISTORY, history, recorded
from benchmarks.history import main as history_main


def measurement(**changed: Any) -> dict[str, Any]:
    run = {"client": "aioproducer", "workload": "bulk", "others_cores": 0.25, "void": None}
    rates = (300.0, 100.0, 200.0)
    return {
        "measured_at": "2026-01-01T00:00:00+00:00",
        "commit": "0123456789",
        "machine": {"cores": 2, "processor": "a processor"},
        "brokers": "mock",
        "runs": [
            {**run, "round": number, "numbers": {"records_per_second": rate}}
            for number, rate in enumerate(rates, 1)
        ],
        **changed,
    }


def test_a_record_has_the_commit_the_machine_the_date_and_medians() -> None:
    kept = recorded(measurement())
    assert kept["commit"] == "0123456789"
    assert kept["machine"]["cores"] == 2
    assert kept["measured_at"].startswith("2026-01-01")
    [figure] = kept["figures"]
    assert figure["rounds"] == 3
    assert figure["others_cores"] == 0.25
    assert figure["numbers"] == {"records_per_second": 200.0}


@pytest.mark.parametrize("commit", [None, "", "0123456789-dirty"])
def test_only_a_commit_is_recorded(commit: str | None, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="commit"):
        recorded(measurement(commit=commit))
    source = tmp_path / "20260101T000000Z.json"
    source.write_text(json.dumps(measurement(commit=commit)))
    assert history_main([str(source), "--history", str(tmp_path / "history")]) == 1
    assert not (tmp_path / "history").exists()


def test_the_history_begins_with_the_newest(tmp_path: Path) -> None:
    for day in ("03", "01", "02"):
        source = tmp_path / f"202601{day}T000000Z.json"
        source.write_text(json.dumps(measurement(measured_at=f"2026-01-{day}T00:00:00+00:00")))
        assert history_main([str(source), "--history", str(tmp_path / "history")]) == 0
    found = history(tmp_path / "history")
    assert [each.measured_at[8:10] for each in found] == ["03", "02", "01"]
    assert found[0].figures[0].numbers["records_per_second"] == 200.0


def test_the_recorded_runs_can_be_read() -> None:
    assert len(history()) == len(list(HISTORY.glob("*.json")))
