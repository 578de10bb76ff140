"""The contract of records that fail, or have no outcome yet."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import pytest

from aioproducer import (
    AbortableTransactionError,
    BufferExhaustedError,
    Producer,
    ProducerClosedError,
    ProducerTimeoutError,
)
from aioproducer.errors import InvalidRecordError, TopicAuthorizationFailedError
from tests.support.contract.kit import ScriptedKit
from tests.support.contract.sending import _Interceptor

_SHORT: Final = 0.05
_A_MEGABYTE: Final = 1_000_000


class OutcomeContract:
    """Errors in the future, and calls that wait for outcomes."""

    async def test_an_error_of_the_cluster_is_in_the_future(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.producer() as producer:
            await producer.send(topic, b"first")
            kit.fail_next(producer, TopicAuthorizationFailedError)
            future = producer.send(topic, b"refused")
            with pytest.raises(TopicAuthorizationFailedError) as raised:
                await future
            assert raised.value.may_have_been_written is False
            assert (await producer.send(topic, b"last")).offset == 1
        assert [each.value for each in await kit.read(topic)] == [b"first", b"last"]

    async def test_nobody_has_to_look_at_a_failed_future(
        self, kit: ScriptedKit, caplog: pytest.LogCaptureFixture
    ) -> None:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context)
        )
        topic = await kit.topic()
        with caplog.at_level(logging.ERROR):
            async with kit.producer() as producer:
                await producer.send(topic, b"first")
                kit.fail_next(producer, InvalidRecordError)
                producer.send(topic, b"refused")
                await producer.flush()
        assert complaints == []
        assert len([each for each in caplog.records if "failed" in each.getMessage()]) == 1

    async def test_a_failed_record_is_in_the_report_of_many(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.producer(batch_size=0) as producer:
            await producer.send(topic, b"first")
            kit.fail_next(producer, TopicAuthorizationFailedError)
            report = await producer.send_many(topic, [b"one", b"two"])
            assert (report.delivered, report.failed) == (1, 1)
            assert isinstance(report.first_failure, TopicAuthorizationFailedError)

    async def test_interceptors_get_the_error(self, kit: ScriptedKit) -> None:
        topic, interceptor = await kit.topic(), _Interceptor()
        async with kit.producer(interceptor_classes=[interceptor]) as producer:
            await producer.send(topic, b"first")
            kit.fail_next(producer, InvalidRecordError)
            producer.send(topic, b"refused")
        [(_, none), (offset, error)] = interceptor.outcomes
        assert (none, offset, type(error)) == (None, -1, InvalidRecordError)

    async def test_a_failed_record_fails_its_transaction(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.producer(transactional_id=kit.new_name()) as producer:
            async with producer.transaction():
                await producer.send(topic, b"first")
            await producer.begin_transaction()
            kit.fail_next(producer, InvalidRecordError)
            producer.send(topic, b"refused")
            with pytest.raises(AbortableTransactionError) as raised:
                await producer.commit_transaction()
            assert isinstance(raised.value.__cause__, InvalidRecordError)
            with pytest.raises(AbortableTransactionError):
                producer.send(topic, b"more")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"last")

    async def test_a_flush_waits_and_a_timeout_takes_nothing_back(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.held_producer() as producer:
            await self._known(kit, producer, topic)
            await kit.hold(producer)
            future = producer.send(topic, b"held")
            with pytest.raises(ProducerTimeoutError, match=r"flush\(\) gave up"):
                await producer.flush(_SHORT)
            assert not future.done()
            flush = asyncio.ensure_future(producer.flush())
            await asyncio.sleep(_SHORT)
            assert not flush.done()
            await kit.release(producer)
            await flush
            assert future.result().offset == 1

    async def test_a_close_gives_up_what_has_no_outcome(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        producer = kit.held_producer()
        await producer.start()
        await self._known(kit, producer, topic)
        await kit.hold(producer)
        futures = [producer.send(topic, b"held") for _ in range(3)]
        assert await producer.close(_SHORT) == 3
        for future in futures:
            with pytest.raises(ProducerClosedError, match="before this record was delivered"):
                await future
        await kit.release(producer)

    async def test_a_cancelled_wait_cancels_no_other_record(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.held_producer() as producer:
            await self._known(kit, producer, topic)
            await kit.hold(producer)
            cancelled, kept = producer.send(topic, b"cancelled"), producer.send(topic, b"kept")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(cancelled, _SHORT)
            await kit.release(producer)
            assert (await kept).offset == 2
        assert [each.value for each in await kit.read(topic)][1:] == [b"cancelled", b"kept"]

    async def test_memory_is_bounded_and_drain_waits(self, kit: ScriptedKit) -> None:
        topic = await kit.topic()
        async with kit.held_producer(buffer_memory=4 * _A_MEGABYTE) as producer:
            await self._known(kit, producer, topic)
            await kit.hold(producer)
            futures, refusal = self._fill(producer, topic)
            assert "drain()" in str(refusal)
            assert 3 <= len(futures) < 10
            drain = asyncio.ensure_future(producer.drain())
            await asyncio.sleep(_SHORT)
            assert not drain.done()
            while not all(each.done() for each in (drain, *futures)):
                await kit.release(producer)
                await asyncio.sleep(0.001)
            await asyncio.gather(drain, *futures)

    def _fill(self, producer: Producer, topic: str) -> tuple[list[Any], BufferExhaustedError]:
        """Send until ``send()`` raises; returns the futures, and the error."""
        futures: list[Any] = []
        try:
            while len(futures) < 100:
                futures.append(producer.send(topic, bytes(_A_MEGABYTE - 1000)))
        except BufferExhaustedError as error:
            return futures, error
        raise AssertionError("the memory is not bounded")

    async def _known(self, kit: ScriptedKit, producer: Producer, topic: str) -> None:
        """Let the producer deliver a first record, so that it knows the topic."""
        first = producer.send(topic, b"first")
        await kit.release(producer)
        await first
