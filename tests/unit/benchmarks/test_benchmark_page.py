"""The page of a measurement, and the record of it: commit, machine, date and medians."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.clients import CLIENTS
from benchmarks.history import HISTORY, history, recorded
from benchmarks.history import main as history_main
from benchmarks.machine import look_at_commit
from benchmarks.page import main as page_main
from benchmarks.page import newest, page
from benchmarks.report import describe
from benchmarks.summary import Run, summarise
from benchmarks.workloads import WORKLOADS

RUNS = [
    Run("aioproducer", "tasks", 1, 0.1, None, {"records_per_second": 4e5, "p99_ms": 2.5}),
    Run("aioproducer", "tasks", 2, 0.1, None, {"records_per_second": 5e5, "p99_ms": 2.0}),
    Run("aiokafka", "tasks", 1, 0.1, None, {"records_per_second": 1e5, "p99_ms": 9.0}),
    Run("aiokafka", "tasks", 2, 0.1, "2 of 9 records failed, the first with <OSError>"),
    Run("confluent", "bulk", 1, 0.1, "it failed"),
]


@pytest.fixture
def content() -> dict[str, Any]:
    workloads = [WORKLOADS["tasks"], WORKLOADS["bulk"]]
    clients = [CLIENTS["aioproducer"], CLIENTS["aiokafka"], CLIENTS["confluent"]]
    summaries = summarise(RUNS)
    sections = [
        describe(each, clients, [one for one in summaries if one.workload == each.name], 9)
        for each in workloads
    ]
    written = {
        "measured_at": "2026-01-01T00:00:00+00:00",
        "machine": {
            **{"cores": 2, "processor": "a & b", "system": "Linux", "python": "CPython"},
            **{"load": [0.1, 0.2, 0.3], "versions": {"aiokafka": "1"}},
        },
        "workloads": [dataclasses.asdict(each) for each in workloads],
        "clients": [dataclasses.asdict(each) for each in clients],
        "brokers": "mock",
        "runs": [dataclasses.asdict(each) for each in RUNS],
        "sections": [dataclasses.asdict(each) for each in sections],
    }
    found: dict[str, Any] = json.loads(json.dumps(written))
    return found


def test_a_page_has_plots_tables_settings_and_the_machine(content: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    html = page(content)
    for words in ("450,000", "400,000..500,000", "max_batch_size", "a &amp; b", "&lt;OSError&gt;"):
        assert words in html
    assert html.count("<svg") == 1  # bulk has no run that counts
    figure = html[html.index("<svg") : html.index("</svg>") + len("</svg>")]
    said = [text.text for text in ElementTree.fromstring(figure).iter() if text.text]
    assert {"aioproducer", "aiokafka", "450,000", "p99 ms"} <= {each.strip() for each in said}
    assert "http" not in html.replace(figure, "")


def test_bars_name_the_settings_where_there_are_several(content: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    content["runs"] += [{**run, "settings": "defaults"} for run in content["runs"]]
    html = page(content)
    assert "aioproducer, defaults" in html
    assert "aioproducer, tuned" in html


def test_the_newest_measurement_is_taken(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make bench"):
        newest(tmp_path)
    for name in ("20260102T000000Z", "20260101T000000Z"):
        (tmp_path / f"{name}.json").touch()
    assert newest(tmp_path).stem == "20260102T000000Z"


def test_without_matplotlib_the_extra_is_named(
    content: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    source = tmp_path / "measured.json"
    source.write_text(json.dumps(content))
    assert page_main([str(source)]) == 1
    assert 'pip install "aioproducer[bench]"' in capsys.readouterr().err
    assert not source.with_suffix(".html").exists()


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


def test_a_measurement_knows_its_commit() -> None:
    commit = look_at_commit()
    assert commit is None or len(commit.removesuffix("-dirty")) >= 10
