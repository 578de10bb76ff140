"""Kafka's own classes judge our messages, and its jar our tables and error codes."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from aioproducer.errors.broker import RETRIABLE, ErrorCode
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.kafka.conftest import said
from tests.protocol import tables
from tests.protocol.messages import Case, cases

pytestmark = pytest.mark.kafka

EACH: Final = 20
"""Messages of each version."""


def test_kafka_reads_every_message_and_writes_the_same_bytes(
    newest: KafkaDistribution,
) -> None:
    written: list[tuple[Case, str]] = []
    for case in cases():
        random = Random(f"kafka {case.name}")
        for _ in range(EACH):
            data = case.schema.encode(case.draw(random), case.version)
            written.append((case, data.hex()))
    lines = [f"{case.api} {case.kind} {case.version} {data}" for case, data in written]
    answers = said(newest, "ReadMessages", "\n".join(lines) + "\n")
    assert len(answers) == len(written)
    wrong = [
        f"{case.name}: {data[:400]} -> {answer[:400]}"
        for (case, data), answer in zip(written, answers, strict=True)
        if answer != data
    ]
    assert not wrong, "\n".join(wrong[:10])


def test_the_tables_are_those_of_the_jar(newest: KafkaDistribution) -> None:
    assert tables.FILE.read_text("utf-8") == tables.generated(), "python -m tests.protocol.tables"


def test_the_error_codes_are_kafkas(newest: KafkaDistribution) -> None:
    theirs = dict(line.split(" ", 1) for line in said(newest, "ErrorCodes"))
    ours = {
        str(int(code)): f"{code.name} {'retriable' if code in RETRIABLE else 'final'}"
        for code in ErrorCode
    }
    assert ours == theirs
