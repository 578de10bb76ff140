"""Code of users as mypy and pyright read it: right code passes, each mistake is found in its line.

A comment ``# error`` marks a line in which both find a mistake; ``# error: pyright`` names the one
that does.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FILES: Final = sorted((HERE / "right").glob("*.py")) + sorted((HERE / "wrong").glob("*.py"))
_MARK: Final = re.compile(r"# error(?:: (\w+))?$")
_FOUND_BY_MYPY: Final = re.compile(r"^(.+?):(\d+): error: ")

Mistake = tuple[str, int]
"""A file of ``FILES`` and a line of it."""


def test_mypy(tmp_path: Path) -> None:
    checked = run(
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path}",
        "--python-version=3.11",
        f"--python-executable={sys.executable}",
        "--follow-imports=silent",
        "--explicit-package-bases",
        "--no-color-output",
        *map(str, FILES),
    )
    matches = map(_FOUND_BY_MYPY.match, checked.splitlines())
    found = {(named(match[1]), int(match[2])) for match in matches if match}
    assert found == marked("mypy"), checked
    for name, said in (
        ("ackz", 'Unexpected keyword argument "ackz" for "Producer"'),
        ("linger_ms", 'Argument "linger_ms" to "Producer" has incompatible type "str"; expected'),
    ):
        mistaken = [line for line in checked.splitlines() if f"ers.py:{line_of(name)}: " in line]
        assert said in mistaken[0]
        assert sum(map(len, mistaken)) < 300, "no overload is shown with all options"


def test_pyright() -> None:
    checked = run(
        "basedpyright", "--project", str(HERE), "--pythonpath", sys.executable, "--outputjson"
    )
    diagnostics = json.loads(checked)["generalDiagnostics"]
    found = {
        (named(each["file"]), each["range"]["start"]["line"] + 1)
        for each in diagnostics
        if each["severity"] == "error"
    }
    assert found == marked("pyright"), json.dumps(diagnostics, indent=1)
    for name, most in (("ackz", 150), ("linger_ms", 300)):
        (message,) = (
            each["message"]
            for each in diagnostics
            if each["range"]["start"]["line"] + 1 == line_of(name)
            and each["file"].endswith("wrong/producers.py")
        )
        assert len(message) <= most, message
    assert 'parameter "linger_ms"' in message


def line_of(option: str) -> int:
    """The first line of ``wrong/producers.py`` that passes an option."""
    lines = (HERE / "wrong" / "producers.py").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"{option}=" in line)


def test_there_is_code_of_both_kinds() -> None:
    assert len({path.parent for path in FILES}) == 2
    assert {name for name, _ in marked("mypy")} == {
        named(str(path)) for path in FILES if path.parent.name == "wrong"
    }


def run(checker: str, *arguments: str) -> str:
    """The output of a checker that ran over all files, offline."""
    done = subprocess.run(
        [Path(sys.executable).with_name(checker), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def named(path: str) -> str:
    return Path(ROOT, path).resolve().relative_to(HERE.resolve()).as_posix()


def marked(checker: str) -> set[Mistake]:
    """The lines in which ``checker`` has to find a mistake."""
    return {
        (named(str(path)), number)
        for path in FILES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (mark := _MARK.search(line)) and mark[1] in (None, checker)
    }
