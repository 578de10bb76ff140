"""The contract of transactions: what is visible when, and the errors of calls in wrong states."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer import (
    FatalTransactionError,
    IllegalStateError,
    Producer,
    ProducerFencedError,
    SerializationError,
    TopicPartition,
    TransactionAbortedError,
)
from aioproducer.model import OffsetAndMetadata
from tests.support.contract.kit import Kit


def values(records: list[Any]) -> list[bytes]:
    """The values of the records."""
    return [each.value for each in records]


class _Transactions:
    def transactional(self, kit: Kit) -> Producer:
        """A producer with an id of its own."""
        return kit.producer(transactional_id=kit.new_name())


class TransactionContract(_Transactions):
    """A transactional producer alone."""

    async def test_records_are_visible_after_the_commit(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer:
            async with producer.transaction():
                await producer.send(topic, b"one")
                producer.send(topic, b"two")
                if kit.tells_aborted:
                    assert await kit.read(topic) == []
            assert values(await kit.read(topic)) == [b"one", b"two"]
            async with producer.transaction():
                await producer.send_many(topic, [b"three"])
        assert values(await kit.read(topic)) == [b"one", b"two", b"three"]

    async def test_an_exception_aborts(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer:
            with pytest.raises(LookupError):
                await self._send_and_fail(producer, topic)
            async with producer.transaction():
                await producer.send(topic, b"committed")
        if kit.tells_aborted:
            assert values(await kit.read(topic)) == [b"committed"]

    async def _send_and_fail(self, producer: Producer, topic: str) -> None:
        async with producer.transaction():
            assert (await producer.send(topic, b"aborted")).offset == 0
            raise LookupError("of the block")

    async def test_an_abort_drops_what_was_not_sent(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer:
            await producer.begin_transaction()
            future = producer.send(topic, b"unsent")  # the topic is not known yet
            await producer.abort_transaction()
            with pytest.raises(TransactionAbortedError):
                await future
            async with producer.transaction():
                await producer.send(topic, b"committed")
        if kit.tells_aborted:
            assert values(await kit.read(topic)) == [b"committed"]

    async def test_calls_in_wrong_states(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer:
            for refused in (
                producer.commit_transaction,
                producer.abort_transaction,
                lambda: producer.send_offsets_to_transaction({}, "group"),
                lambda: producer.send_many(topic, [b"v"]),
            ):
                with pytest.raises(IllegalStateError):
                    await refused()
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                producer.send(topic, b"v")
            await producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="begin"):
                await producer.begin_transaction()
            with pytest.raises(IllegalStateError, match="shared"):
                producer.transaction_handle()
            await producer.send(topic, b"v")
            await producer.commit_transaction()
        async with kit.producer() as plain:
            with pytest.raises(IllegalStateError, match="no transactional_id"):
                await plain.begin_transaction()
        assert values(await kit.read(topic)) == [b"v"]

    async def test_a_wrong_argument_leaves_the_transaction_as_it_is(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer, producer.transaction():
            with pytest.raises(SerializationError):
                producer.send(topic, object())
            await producer.send(topic, b"v")
        assert values(await kit.read(topic)) == [b"v"]


class CoordinatorContract(_Transactions):
    """A transactional producer whose coordinators do all that Kafka's do."""

    async def test_offsets_move_with_the_commit(self, kit: Kit) -> None:
        topic, group = await kit.topic(2), kit.new_name()
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with self.transactional(kit) as producer:
            assert await producer.committed_offsets(group, [first]) == {}
            async with producer.transaction():
                await producer.send_offsets_to_transaction({first: 5}, group)
                await producer.send(topic, b"v", partition=0)
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({first: 9, second: 9}, group)
            await producer.abort_transaction()
            found = await producer.committed_offsets(group, [first, second])
        assert found == {first: OffsetAndMetadata(5)}

    async def test_a_fenced_producer(self, kit: Kit) -> None:
        topic = await kit.topic()
        async with self.transactional(kit) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"fenced")
            await kit.fence(producer)
            with pytest.raises(ProducerFencedError):
                await producer.commit_transaction()
            with pytest.raises(FatalTransactionError):
                await producer.begin_transaction()
            with pytest.raises(FatalTransactionError):
                producer.send(topic, b"more")
            assert producer.health().state == "fatal"
        assert await kit.read(topic) == []
