"""Run confluent-kafka's tests and examples with its producer and with ours; see the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.support.confluent_tests.differences import DIFFERENCES, FILES, LEFT_OUT
from tests.support.confluent_tests.examples import compare_examples
from tests.support.confluent_tests.plugin import CLIENT

ROOT: Final = Path(__file__).parents[3]
PLUGIN: Final = "tests.support.confluent_tests.plugin"
PACKAGE: Final = "tests_of_confluent"
SECONDS_OF_A_RUN: Final = 300.0
SECONDS_OF_A_TEST: Final = 60


def checkout() -> Path:
    """The checkout that the environment names."""
    named = os.environ.get("CONFLUENT_TESTS")
    if not named:
        sys.exit("CONFLUENT_TESTS is to name a checkout of confluentinc/confluent-kafka-python")
    return Path(named)


def copied(tests: Path, folder: Path) -> Path:
    """A package with the tests of producers alone; the names of the imports follow it."""
    package = folder / PACKAGE
    shutil.copytree(tests / "common", package / "common")
    (package / "__init__.py").touch()
    for name in FILES:
        text = (tests / name).read_text("utf-8")
        (package / name).write_text(text.replace("from tests.", f"from {PACKAGE}."), "utf-8")
    for path in (package / "common").rglob("*.py"):
        text = path.read_text("utf-8")
        path.write_text(text.replace("from tests.", f"from {PACKAGE}."), "utf-8")
    return package


def run(client: str, package: Path) -> dict[str, str]:
    """The outcome of each test with ``client``, by its name.

    Each file has a process of its own: with confluent-kafka a test of theirs ends the interpreter.
    """
    found: dict[str, str] = {}
    for name in FILES:
        found |= run_file(client, package, name)
    return found


def run_file(client: str, package: Path, name: str) -> dict[str, str]:
    """The outcomes of the tests of one file."""
    report = package.parent / f"{client}-{name}.xml"
    report.unlink(missing_ok=True)
    settings = package.parent / "pytest.ini"
    settings.write_text(f"[pytest]\nfaulthandler_timeout = {SECONDS_OF_A_TEST}\n", "utf-8")
    options = ["-q", "--tb=short", "-c", str(settings), f"--junitxml={report}", str(package / name)]
    if name in LEFT_OUT:
        options += ["-k", f"not ({' or '.join(LEFT_OUT[name])})"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *options],
        env={**os.environ, CLIENT: client, "PYTHONPATH": f"{ROOT}{os.pathsep}{package.parent}"},
        cwd=package.parent,
        timeout=SECONDS_OF_A_RUN,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    log = Path(tempfile.gettempdir(), f"confluent-tests-{client}-{name}.log")
    log.write_text(done.stdout + done.stderr, "utf-8")
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase") if report.exists() else ():
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        if case.get("name") is None:  # the interpreter has ended
            continue
        found[str(case.get("name"))] = min(kinds, default="passed")
    return found


def compare(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """The contradictions between the runs and the table."""
    problems = []
    for name in sorted({*theirs, *ours, *DIFFERENCES}):
        expected, outcome = name in DIFFERENCES, ours.get(name, "missing")
        if outcome == "passed":
            problems += [f"{name} passes: take it out of the table"] * expected
        elif not expected and outcome != theirs.get(name):
            problems.append(f"{name}: {outcome} with ours, {theirs.get(name)} with confluent's")
    return problems


def main() -> int:
    """0 if every test has the same outcome with ours, or its reason in the table, and every example
    tells the same."""
    source = checkout()
    clients = ("confluent", "aioproducer")
    with tempfile.TemporaryDirectory() as folder:
        package = copied(source / "tests", Path(folder))
        with ThreadPoolExecutor(len(clients)) as side_by_side:
            theirs, ours = side_by_side.map(lambda client: run(client, package), clients)
        problems = compare_examples(source, Path(folder))
    print(f"the output of pytest is in {tempfile.gettempdir()}/confluent-tests-*.log")
    for client, outcomes in zip(clients, (theirs, ours), strict=True):
        counts = Counter(outcomes.values())
        print(f"{client}: " + ", ".join(f"{counts[each]} {each}" for each in sorted(counts)))
    problems += compare(theirs, ours)
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
