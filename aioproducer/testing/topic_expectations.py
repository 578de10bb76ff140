"""``expect()``: assertions on records, or on a topic, which is read back first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Unpack, overload

from aioproducer.config import ProducerConfig
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.testing.expectations import Expectations
from aioproducer.testing.expected_record import Described, RecordFields
from aioproducer.testing.read_records import (
    PATIENCE,
    ReadOptions,
    ReadRecords,
    committed_reader,
    hide_secrets_of,
    read_back,
)
from aioproducer.testing.sent_record import SentRecord

__all__ = ["TopicExpectations", "expect"]


class TopicExpectations:
    """Expectations of a topic. Every method reads the topic back, and returns the expectations of
    its records.

    See :class:`Expectations`, which has the same methods for records.
    """

    def __init__(
        self,
        topic: str | TopicPartition,
        config: ProducerConfig | None,
        timeout: float,
        wait: float,
        options: ReadOptions,
    ) -> None:
        self._topic = topic
        self._config = config
        self._timeout = timeout
        self._wait = wait
        self._options = options

    async def has(
        self, *, count: int | None = None, **fields: Unpack[RecordFields]
    ) -> Expectations:
        """See :meth:`Expectations.has`."""
        __tracebackhide__ = True
        return await self._check(lambda records: records.has(count=count, **fields), self._wait)

    async def has_none(self, **fields: Unpack[RecordFields]) -> Expectations:
        """See :meth:`Expectations.has_none`. This is checked only once."""
        __tracebackhide__ = True
        return await self._check(lambda records: records.has_none(**fields), 0)

    async def has_exactly(self, expected: Iterable[Described]) -> Expectations:
        """See :meth:`Expectations.has_exactly`."""
        __tracebackhide__ = True
        wanted = list(expected)
        return await self._check(lambda records: records.has_exactly(wanted), self._wait)

    async def in_order(self, expected: Iterable[Described]) -> Expectations:
        """See :meth:`Expectations.in_order`."""
        __tracebackhide__ = True
        wanted = list(expected)
        return await self._check(lambda records: records.in_order(wanted), self._wait)

    async def _check(
        self, check: Callable[[Expectations], Expectations], wait: float
    ) -> Expectations:
        __tracebackhide__ = True
        records = await read_back(self._topic, self._config, timeout=self._timeout, **self._options)
        if wait > 0:
            records = await self._wait_until(check, records, wait)
        return check(Expectations(records))

    async def _wait_until(
        self, check: Callable[[Expectations], object], records: ReadRecords, wait: float
    ) -> ReadRecords:
        """Read on after ``records`` until they pass the check, or until ``wait`` is over."""
        if _passes(check, records):
            return records
        scope = asyncio.timeout(wait)
        reader = committed_reader(records.positions, self._config, options=self._options)
        try:
            async with scope, reader:
                async for batch in reader.batches():
                    records = ReadRecords(
                        [*records, *batch], reader.positions, records.isolation_level
                    )
                    if _passes(check, records):
                        break
        except TimeoutError:
            if not scope.expired():
                raise
        return records


def _passes(check: Callable[[Expectations], object], records: ReadRecords) -> bool:
    try:
        check(Expectations(records))
    except AssertionError:
        return False
    return True


@overload
def expect(records: Iterable[ConsumerRecord | SentRecord], /) -> Expectations: ...
@overload
def expect(
    topic: str | TopicPartition,
    config: ProducerConfig | None = None,
    /,
    *,
    timeout: float = PATIENCE,
    wait: float = 0,
    **options: Unpack[ReadOptions],
) -> TopicExpectations: ...
def expect(
    what: str | TopicPartition | Iterable[ConsumerRecord | SentRecord],
    config: ProducerConfig | None = None,
    /,
    *,
    timeout: float = PATIENCE,
    wait: float = 0,
    **options: Unpack[ReadOptions],
) -> Expectations | TopicExpectations:
    """Make assertions on records that were read or sent, or on a topic, which is then read back.

    ::

        expect(records).has(key=b"customer-7", value=b"one espresso").has_none(value=b"refused")

        await expect("orders", bootstrap_servers="localhost:9092", wait=5).has(value=b"late")

    The methods of :class:`Expectations` raise an ``AssertionError`` that lists the most similar
    records. For a topic they are coroutines.

    Args:
        what: records from :func:`read_back` or from a :class:`MockProducer`; or a topic or
            partition. The options are those of :func:`read_back`.
        config: a configuration, which the options override.
        timeout: seconds to read the topic back.
        wait: seconds to wait for missing records; by default there is no wait.
    """
    hide_secrets_of(options)
    if isinstance(what, str | TopicPartition):
        return TopicExpectations(what, config, timeout, wait, options)
    if config is not None or options:
        raise TypeError("options are for a topic that is read back, and these are records")
    if isinstance(what, ReadRecords):
        return Expectations(what)
    return Expectations(each.as_read() if isinstance(each, SentRecord) else each for each in what)
