"""Each public name of Kafka's newest producer has a counterpart, or a row of the differences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

import aioproducer
from aioproducer import Producer, sync, testing
from aioproducer.config.names import BY_JAVA_NAME, WITHOUT_EFFECT
from aioproducer.config.properties import CONFIG_PROVIDERS
from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.documentation.pages import DOCS
from tests.kafka.conftest import said

pytestmark = pytest.mark.kafka

RENAMED: Final = {"KafkaProducer": "Producer", "BufferExhaustedException": "BufferExhaustedError"}
HEADING: Final = "## Names without a counterpart"


def missing_names() -> Iterator[str]:
    """The names in the first column of the page's table; each row has a reason."""
    page = (DOCS / "explanation" / "differences.md").read_text("utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:3] == "| `"]
    for theirs, ours, reason in rows:
        assert ours.strip(), theirs
        assert reason.strip(), theirs
        yield from re.findall(r"`([\w.]+)`", theirs)


def is_here(kind: str, name: str) -> bool:
    """True if the option, method or class of Kafka has a counterpart."""
    if kind == "option":
        return name in BY_JAVA_NAME or name in WITHOUT_EFFECT or name == CONFIG_PROVIDERS
    if kind == "method":
        ours = re.sub("([A-Z])", r"_\1", name).lower()
        return hasattr(Producer, ours) and hasattr(sync.Producer, ours)
    ours = RENAMED.get(name, name)
    return hasattr(aioproducer, ours) or hasattr(testing, ours)


def test_each_name_is_here_or_a_difference(newest: KafkaDistribution) -> None:
    names = [tuple(line.split()) for line in said(newest, "ProducerNames")]
    kinds = [kind for kind, _ in names]
    assert kinds.count("option") > 100
    assert kinds.count("method") >= 13
    assert kinds.count("class") >= 12
    absent = [name for kind, name in names if not is_here(kind, name)]
    assert sorted(absent) == sorted(missing_names()), "the page of differences has other names"
