"""Kafka's own classes judge our messages, and its jar our tables and error codes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from aioproducer.errors.codes import RETRIABLE, ErrorCode
from aioproducer.testing.kafka_distribution import KafkaDistribution, KafkaUnavailableError
from tests.kafka.conftest import say_that_there_is_no_kafka
from tests.protocol import tables
from tests.protocol.messages import Case, cases

pytestmark = pytest.mark.kafka

JAVA: Final = Path(__file__).parent / "java"
EACH: Final = 20
"""Messages of each version."""


@pytest.fixture(scope="module")
def distribution() -> KafkaDistribution:
    try:
        return KafkaDistribution.resolve(tables.RELEASE)
    except KafkaUnavailableError as error:
        say_that_there_is_no_kafka(error, tables.RELEASE.version)
        raise


def said(distribution: KafkaDistribution, program: str, given: str = "") -> list[str]:
    """The lines that a program prints."""
    command = [
        distribution.java.executable,
        "-cp",
        distribution.classpath,
        str(JAVA / f"{program}.java"),
    ]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_kafka_reads_every_message_and_writes_the_same_bytes(
    distribution: KafkaDistribution,
) -> None:
    written: list[tuple[Case, str]] = []
    for case in cases():
        random = Random(f"kafka {case.name}")
        for _ in range(EACH):
            data = case.schema.encode(case.draw(random), case.version)
            written.append((case, data.hex()))
    lines = [f"{case.api} {case.kind} {case.version} {data}" for case, data in written]
    answers = said(distribution, "ReadMessages", "\n".join(lines) + "\n")
    assert len(answers) == len(written)
    wrong = [
        f"{case.name}: {data[:400]} -> {answer[:400]}"
        for (case, data), answer in zip(written, answers, strict=True)
        if answer != data
    ]
    assert not wrong, "\n".join(wrong[:10])


def test_the_tables_are_those_of_the_jar(distribution: KafkaDistribution) -> None:
    for path, text in tables.generated().items():
        assert path.read_text("utf-8") == text, f"{path}: python -m tests.protocol.tables"
    names = {path.name for path in tables.generated()} | {"__init__.py"}
    assert {path.name for path in tables.FOLDER.glob("*.py")} == names


def test_the_error_codes_are_kafkas(distribution: KafkaDistribution) -> None:
    theirs = dict(line.split(" ", 1) for line in said(distribution, "ErrorCodes"))
    ours = {
        str(int(code)): f"{code.name} {'retriable' if code in RETRIABLE else 'final'}"
        for code in ErrorCode
    }
    assert ours == theirs
