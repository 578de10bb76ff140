"""The cost of thousands of topics grows with their number, and not with its square."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.errors import kafka_error
from tests.support.counting import counted_lines
from tests.unit.cluster.known_cluster import BROKERS, NOW, info, news, settled, told

FEW, MANY = 500, 4_000
ROUNDING = 1.15
UNKNOWN_TOPIC = 3


def _names(count: int) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def _ask(it: Metadata, *, known: bool = True) -> list[int]:
    """Ask until nothing is due; returns the number of topics of each request."""
    asked = []
    while (due := it.next_refresh()) is not None and due <= NOW:
        request = it.start(NOW)
        asked.append(len(request.topics))
        if known:
            told(it, news(*(info(name) for name in request.topics)), request)
        else:
            told(it, _unknown(request.topics), request)
    return asked


def _unknown(topics: Iterable[str]) -> MetadataNews:
    error = kafka_error(UNKNOWN_TOPIC, "not there")
    return MetadataNews(BROKERS, errors=dict.fromkeys(topics, error))


def _all_at_once(it: Metadata, topics: Iterable[str]) -> list[int]:
    for topic in topics:
        it.seek(topic, NOW)
    return _ask(it)


def _one_after_the_other(it: Metadata, topics: Iterable[str]) -> list[int]:
    asked = []
    for topic in topics:
        it.seek(topic, NOW)
        asked += _ask(it)
    return asked


def _unknown_one_after_the_other(it: Metadata, topics: Iterable[str]) -> list[int]:
    asked = []
    for topic in topics:
        it.seek(topic, NOW)
        asked += _ask(it, known=False)
    return asked


def test_each_new_topic_is_asked_for_once_and_alone() -> None:
    assert _one_after_the_other(settled(), _names(MANY)) == [1] * MANY


def test_new_topics_together_are_asked_for_once() -> None:
    assert _all_at_once(settled(), _names(1_201)) == [500, 500, 201]


def test_topics_in_backoff_are_not_asked_for_with_each_new_one() -> None:
    assert _unknown_one_after_the_other(settled(), _names(MANY)) == [1] * MANY


@pytest.mark.parametrize(
    "cold_start", [_all_at_once, _one_after_the_other, _unknown_one_after_the_other]
)
def test_the_work_grows_with_the_number_of_topics(
    cold_start: Callable[[Metadata, Iterable[str]], list[int]],
) -> None:
    lines = []
    for count in (FEW, MANY):
        it = settled()
        with counted_lines() as counted:
            cold_start(it, _names(count))
        lines.append(counted.count / count)
    few, many = lines
    assert many <= few * ROUNDING


def test_the_snapshot_is_a_view_and_no_copy() -> None:
    it = settled()
    topics = it.snapshot.topics
    _all_at_once(it, ["new"])
    assert "new" in topics
    assert topics is it.snapshot.topics
