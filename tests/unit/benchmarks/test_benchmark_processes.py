"""The benchmarks that start programs: a new process's first record, and lines from a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import produce_lines
from benchmarks.launch import environment
from benchmarks.new_process import __main__ as new_process
from benchmarks.new_process.first import main as send_first


def test_the_times_of_a_process_count_from_its_start() -> None:
    said = {"began": 10.1, "imported": 10.3, "delivered": 10.4, "cpu_seconds": 0.25}
    assert new_process.times(said, began=10.0, ended=10.5) == pytest.approx(
        {"imported_ms": 200, "delivered_ms": 400, "ended_ms": 500, "cpu_ms": 250}
    )


def test_a_new_process_is_compared_with_each_peer() -> None:
    def runs(*factors: int) -> list[new_process.Times]:
        names = ("imported_ms", "delivered_ms", "ended_ms", "cpu_ms")
        return [dict.fromkeys(names, 10.0 * factor) for factor in factors]

    section = new_process.describe(
        {"no client": runs(1, 1), "aioproducer": runs(2, 6), "aiokafka": runs(8, 8)}
    )
    assert section.rows[1] == ("aioproducer", *("40", "20..60") * 4)
    assert section.ratios == (
        "aioproducer / aiokafka: 0.50 x import ms, 0.50 x first record ms, 0.50 x ended ms, "
        "0.50 x CPU ms until delivered",
    )
    assert {len(row) for row in section.rows} == {len(section.headings)}


def test_a_process_says_its_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = "benchmarks.new_process.nothing_first"
    monkeypatch.setattr(sys, "argv", ["first", module, "127.0.0.1:9", "topic"])
    send_first()
    said = json.loads(capsys.readouterr().out)
    assert said["began"] <= said["imported"] <= said["delivered"]
    assert said["cpu_seconds"] > 0


def test_the_second_process_finds_its_modules_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    variables = environment("/compiled")
    assert variables["PYTHONPYCACHEPREFIX"] == "/compiled"
    assert "PYTHONDONTWRITEBYTECODE" not in variables


def test_lines_are_said_per_second_and_with_their_cpu() -> None:
    found = {
        "aioproducer produce": [produce_lines.Costs(1_000, 0.5, 0.004)],
        "kcat": [produce_lines.Costs(1_000, 0.25, 0.001)],
    }
    section = produce_lines.describe(found, 1_000)
    assert section.rows[0][:4] == ("aioproducer produce", "2,000", "2,000..2,000", "4.00")
    assert section.ratios == ("aioproducer produce / kcat: 0.50 x lines/s, 4.00 x CPU",)
    assert {len(row) for row in section.rows} == {len(section.headings)}


def test_a_program_that_fails_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a line\n")
    command = [sys.executable, "-c", "import sys; sys.exit('no brokers')"]
    with pytest.raises(produce_lines.RunError, match="kcat: exit code 1: no brokers"):
        produce_lines.run("kcat", command, path, 1, {})


def test_a_program_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_lines, "_LONGEST_RUN", 0.05)
    path = tmp_path / "lines.txt"
    path.write_text("a line\n")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(produce_lines.RunError, match="kcat: exit code -9"):
        produce_lines.run("kcat", command, path, 1, {})


def test_without_kcat_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    monkeypatch.setattr(
        produce_lines,
        "run_all",
        lambda lines, rounds: {"aioproducer produce": [produce_lines.Costs(lines, 1.0, 1.0)]},
    )
    assert produce_lines.main(["--lines", "7"]) == 0
    assert "kcat is missing" in capsys.readouterr().out
