"""The outcomes of records by topic: which topics fail at present, and for which reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from aioproducer.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    ProducerClosedError,
    ProducerError,
    TransactionAbortedError,
    UsageError,
)

_ABOUT_THE_RECORD = (
    InvalidRecordError,
    InvalidTimestampError,
    ProducerClosedError,
    TransactionAbortedError,
    UsageError,
)
"""Errors after which other records of the topic may be delivered."""


class FailingTopic(NamedTuple):
    """A topic whose records fail: none was delivered since. Times are clock seconds."""

    since: float
    """The time of the first failure."""
    last: float
    """The time of the last one."""
    error: ProducerError
    """The last one."""


class TopicOutcomes:
    """Counts delivered and failed records, and remembers the topics that fail."""

    def __init__(self) -> None:
        self.delivered_records = 0
        """Records that were acknowledged."""
        self.failed_records = 0
        """Records that failed, whatever the reason."""
        self._failing: dict[str, FailingTopic] = {}
        self.failing: Mapping[str, FailingTopic] = MappingProxyType(self._failing)
        """The topics that fail."""

    def failed(
        self,
        topic: str,
        records: int,
        error: ProducerError,
        now: float,
        *,
        others_may_pass: bool = False,
    ) -> None:
        """Note that ``records`` of ``topic`` failed with ``error``.

        ``others_may_pass``: the error says nothing about other records of the topic.
        """
        self.failed_records += records
        if not others_may_pass and not isinstance(error, _ABOUT_THE_RECORD):
            known = self._failing.get(topic)
            since = now if known is None else known.since
            self._failing[topic] = FailingTopic(since, now, error)

    def forget(self, topic: str) -> None:
        """Forget the failures of a topic that passes, or is not used any more."""
        self._failing.pop(topic, None)
