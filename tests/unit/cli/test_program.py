"""The program around the commands: help, errors, completion, and what a start imports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from aioproducer.cli.app import app, run
from aioproducer.foundation.version import __version__

WIDTH = 80
COMPLETE = "_AIOPRODUCER_COMPLETE"


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, those of groups as well."""
    yield words
    for name in getattr(command, "commands", {}):
        context = typer.Context(command)
        _, found, _ = command.resolve_command(context, [name])
        yield from commands(found, (*words, name))


ALL = list(commands(typer.main.get_command(app)))


def aioproducer(
    *arguments: str, code: str = "import aioproducer.cli as cli; cli.main()", **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **variables},
    )


def test_there_are_commands() -> None:
    assert {("produce",), ("check",)} <= set(ALL)


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_a_terminal_and_cuts_nothing(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert run([*words, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"Usage: {' '.join(('aioproducer', *words))} ")
    assert [line for line in told.splitlines() if len(line) > WIDTH] == []
    assert "…" not in told
    assert "..." not in told.partition("Commands:")[2]
    assert "<" not in told.partition("Options:")[2], "an option without a metavar"


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_says_the_exit_codes(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*words, "--help"])
    told = capsys.readouterr().out
    assert "Exit codes:\n" in told or "Commands:\n" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prodcue"], "No such command 'prodcue'. Did you mean 'produce'? See --help"),
        (["--nonsense"], "No such option: --nonsense. See --help"),
        (["produce", "--partiton", "1"], "No such option: --partiton"),
        (["check", "t", "-b", "a:1", "-X", "parse.key=true"], "only `aioproducer produce` has it"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_do(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    told, error = capsys.readouterr()
    assert told == ""
    assert error.startswith("aioproducer: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["topics", "groups"])
def test_a_command_without_its_subcommand_shows_them(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name]) == 2
    told, error = capsys.readouterr()
    assert told == ""
    assert error.startswith(f"Usage: aioproducer {name} ")
    assert {"list", "describe", "delete"} <= set(error.partition("Commands:")[2].split())


def test_the_program_alone_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    told, error = capsys.readouterr()
    assert error == ""
    assert {"produce", "mock"} <= set(told.partition("Commands:")[2].split())


@pytest.mark.parametrize("name", ["--bootstrap-server", "--bootstrap-servers", "-b"])
def test_kafkas_names_of_options_are_taken(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", name, "no port"]) == 2
    assert "bootstrap_servers='no port'" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "code"), [("dashboard", 0), ("--help", 1)])
def test_a_result_that_nobody_reads_ends_quietly(command: str, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "aioproducer", command],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aioproducer", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    expected = "aioproducer: the result can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)


# --- without the extra cli ------------------------------------------------------------------


WITHOUT = """
import sys
for name in {missing}:
    sys.modules[name] = None
import aioproducer.cli as cli
cli.main()
"""


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (["typer"], "typer"),
        (["rich"], "rich"),
        (["typer", "rich"], "typer and rich"),
    ],
)
def test_without_its_libraries_a_command_names_the_extra(missing: list[str], named: str) -> None:
    done = aioproducer("check", "orders", code=WITHOUT.format(missing=missing))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"aioproducer: the command line needs {named}: pip install 'aioproducer[cli]'\n"
    )


def test_the_version_needs_no_library() -> None:
    told = aioproducer("--version")
    done = aioproducer("--version", code=WITHOUT.format(missing=["typer", "rich"]))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == told.stdout
    assert done.stdout.startswith(f"aioproducer {__version__}")


# --- the start -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["produce", "check", "perf", "tail"])
def test_a_command_imports_no_other_and_nothing_for_pictures(command: str) -> None:
    code = (
        "import sys; from aioproducer.cli.app import run; run(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stdout)"
    )
    done = aioproducer(command, "t", "-b", "no port", code=code)
    assert "has no port" in done.stderr
    loaded = set(done.stdout.split())
    assert f"aioproducer.cli.{command}" in loaded
    others = {words[0] for words in ALL if words} - {command}
    unwanted = {f"aioproducer.cli.{other}" for other in others}
    unwanted |= {"rich", "aioproducer.admin"}
    if command != "tail":
        unwanted.add("aioproducer.reader")
    assert not loaded & unwanted


# --- completion ----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    done = aioproducer(**{COMPLETE: f"source_{shell}"})
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{COMPLETE}=complete_{shell}" in done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("aioproducer pro", ["produce"]),
        ("aioproducer check --time", ["--timeout"]),
        ("aioproducer produce --key-s", ["--key-separator"]),
    ],
)
def test_bash_completes_commands_and_their_options(typed: str, offered: list[str]) -> None:
    words = typed.split()
    shell = (
        f'aioproducer() {{ "{sys.executable}" -m aioproducer "$@"; }}\n'
        f'eval "$({COMPLETE}=source_bash "{sys.executable}" -m aioproducer)"\n'
        f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}\n"
        f'_aioproducer_completion "$PROGRAM"; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    )
    program = os.path.join(os.path.dirname(sys.executable), "aioproducer")
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PROGRAM": program},
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")
