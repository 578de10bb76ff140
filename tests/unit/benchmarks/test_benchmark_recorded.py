"""Measurements that refuse uncompiled source, their files, and the figures that are recorded."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import aioproducer
from benchmarks import __main__ as program
from benchmarks import machine, recorded, suite
from benchmarks.recorded import figure, joined, kept, said, tables
from benchmarks.recorded import main as record
from benchmarks.report import Measurement, Section, add_options, say_seconds

SECTION = Section(
    title="bulk: a future per record",
    headings=("client", "settings", "records/s", "range", "p50 ms"),
    rows=(
        ("aioproducer", "defaults", "300,000", "1..2", "0.25"),
        ("aiokafka", "defaults", "200,000", "1..2", "-"),
    ),
    labels=2,
)


def measured(tmp_path: Path, arguments: list[str], commit: str = "0123456789") -> Path:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    add_options(parser)
    given = ["--results", str(tmp_path), *arguments]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.report.look_at_commit", lambda: commit)
        options = parser.parse_args(given)
        measurement = Measurement.begin(parser, given, options, seconds=240)
    return measurement.write([SECTION])


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aioproducer, "__accelerated__", True)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aioproducer, "__accelerated__", False)


@pytest.mark.usefixtures("uncompiled")
def test_uncompiled_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        measured(tmp_path, [])
    told = capsys.readouterr().err
    assert "uncompiled source" in told
    assert "make env" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("arguments", [["--quick"], ["--workloads", "bulk", "--clients", "java"]])
def test_the_main_program_refuses_uncompiled_source(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(arguments)


@pytest.mark.usefixtures("uncompiled")
def test_uncompiled_source_is_measured_on_request_and_never_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(measured(tmp_path, ["--uncompiled"]).read_text("utf-8"))
    assert content["machine"]["versions"]["aioproducer"].endswith("UNCOMPILED")
    assert "UNCOMPILED" in capsys.readouterr().out
    with pytest.raises(ValueError, match="uncompiled"):
        kept(content)


@pytest.mark.usefixtures("compiled")
def test_a_measurement_says_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(tmp_path, [])
    assert "this takes about 4 minutes" in capsys.readouterr().out
    assert [say_seconds(each) for each in (1, 80, 9_000)] == [
        *("about 1 minute", "about 1 minute", "about 2.5 hours"),
    ]


def test_the_quick_measurement_takes_five_minutes() -> None:
    parser = program._parser()
    plan = program._plan(parser, parser.parse_args(["--quick"]))
    assert 120 < program.seconds_of(plan) <= 300
    shorter = program._plan(parser, parser.parse_args(["--quick", "--clients", "aioproducer"]))
    assert program.seconds_of(shorter) < 100


@pytest.mark.usefixtures("compiled")
def test_a_record_has_the_command_the_commit_the_machine_the_date_and_the_cells(
    tmp_path: Path,
) -> None:
    source = measured(tmp_path, ["--uncompiled"])
    target = tmp_path / "recorded.json"
    assert record([str(source), "--recorded", str(target)]) == 0
    [(name, table)] = tables(target).items()
    assert name == "bulk"
    assert table.run.command.startswith("python -m benchmarks --results")
    assert (table.run.commit, table.run.machine["cores"]) == ("0123456789", machine._usable_cores())
    assert table.row("aioproducer", "defaults") == dict(
        zip(SECTION.headings, SECTION.rows[0], strict=True)
    )
    assert table.row("aiokafka", "tuned") is None


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("commit", ["", "0123456789-dirty"])
def test_only_a_commit_is_recorded(commit: str, tmp_path: Path) -> None:
    source = measured(tmp_path, [], commit)
    assert record([str(source), "--recorded", str(tmp_path / "recorded.json")]) == 1
    assert not (tmp_path / "recorded.json").exists()


def run(day: int, *names: str) -> dict[str, Any]:
    return {"measured_at": f"2026-01-{day:02}", "tables": dict.fromkeys(names, day)}


def test_the_newest_run_of_each_table_stays() -> None:
    assert joined([run(1, "a", "b"), run(3, "a"), run(2, "a", "c"), run(1, "c")]) == [
        run(3, "a"),
        run(2, "c"),
        run(1, "b"),
    ]


@pytest.mark.usefixtures("compiled")
def test_a_key_names_a_figure_or_a_ratio(tmp_path: Path) -> None:
    target = tmp_path / "recorded.json"
    assert record([str(measured(tmp_path, [])), "--recorded", str(target)]) == 0
    found = tables(target)
    assert figure("bulk:aioproducer:defaults:records/s", found) == "300,000"
    assert figure("bulk:aioproducer:defaults:p50 ms", found) == "0.25"
    assert figure("bulk:aioproducer/aiokafka:defaults:records/s", found) == "1.50"
    for key in (
        *("other:aioproducer:defaults:records/s", "bulk:java:defaults:records/s"),
        *("bulk:aioproducer:defaults:rows/s", "bulk:aioproducer/aiokafka:defaults:p50 ms"),
    ):
        with pytest.raises(LookupError, match=key):
            figure(key, found)


def test_a_figure_has_two_or_three_digits() -> None:
    assert [said(each) for each in (766_939, 1_234, 138.31, 7.47, 1.109, 0.0712)] == [
        *("767,000", "1,230", "138", "7.5", "1.11", "0.07"),
    ]


@pytest.mark.usefixtures("compiled")
def test_a_file_that_is_refused_keeps_no_other_from_being_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = measured(tmp_path, []), tmp_path / "bad.json"
    bad.write_text('{"commit": "0123456789"}', "utf-8")
    target = tmp_path / "recorded.json"
    assert record([str(bad), str(good), "--recorded", str(target)]) == 1
    assert [*tables(target)] == ["bulk"]
    assert f"{bad}: a measurement of uncompiled source" in capsys.readouterr().err


def test_the_suite_records_only_what_a_program_without_a_fault_has_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"good": 0, "void": 1, "silent": 0}
    taken: list[str] = []

    def take(files: list[str]) -> int:
        taken.extend(files)
        return 0

    def run(program: list[str], **_: Any) -> SimpleNamespace:
        name = program[2]
        if name != "silent":
            (tmp_path / f"{name}.json").touch()
        return SimpleNamespace(returncode=codes[name])

    monkeypatch.setattr(suite, "SUITE", dict.fromkeys(codes, 1))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(Measurement, "begin", lambda *_, **__: None)
    monkeypatch.setattr(recorded, "main", take)
    assert suite.main(["--results", str(tmp_path)]) == 1
    assert taken == [str(tmp_path / "good.json")]
    said = capsys.readouterr().out
    assert "FAILED: python -m void\nFAILED: python -m silent" in said


def test_the_suite_names_programs_that_are_there() -> None:
    for command in suite.SUITE:
        path = Path(suite._ROOT, *command.split()[0].split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), command
