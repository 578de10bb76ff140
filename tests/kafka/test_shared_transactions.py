"""One transaction that several processes write into, in both versions of the protocol."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from aioproducer import (
    AbortableTransactionError,
    IllegalStateError,
    OffsetAndMetadata,
    Producer,
    ProducerError,
    ProducerFencedError,
    ProducerTimeoutError,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.kafka.participant import take_part
from tests.kafka.transactional import (
    committed,
    nothing_is_open,
    offset_of,
    producer_on,
    topics,
    visible,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


async def elsewhere(
    processes: ProcessPoolExecutor,
    cluster: KafkaCluster,
    handle: TransactionHandle,
    topic: str,
    partition: int = 0,
    values: tuple[bytes, ...] = (),
    *,
    offset: int | None = None,
    end: str | None = None,
) -> list[int]:
    """Take part in another process."""
    return await asyncio.get_running_loop().run_in_executor(
        processes,
        take_part,
        *(cluster.bootstrap_servers, handle, topic, partition, list(values), offset, end),
    )


def joining(cluster: KafkaCluster, handle: TransactionHandle) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transaction=handle)


async def test_processes_write_into_one_transaction(
    transactional: KafkaCluster, processes: ProcessPoolExecutor
) -> None:
    """And into the next ones of the same producer, committed and aborted in turn."""
    await topics(transactional, "together")
    expected: list[bytes] = []
    async with producer_on(transactional, "together") as owner:
        for number in range(4):
            values = [tuple(b"%d %d %d" % (number, p, n) for n in range(20)) for p in range(3)]
            await owner.begin_transaction(shared=True)
            handle = owner.transaction_handle()
            assert pickle.loads(pickle.dumps(handle)) == handle
            for value in values[2]:
                owner.send("together", value, partition=2)
            await asyncio.gather(
                *[
                    elsewhere(processes, transactional, handle, "together", p, values[p], offset=n)
                    for p, n in ((0, 10 + number), (1, 20 + number))
                ]
            )
            if number % 2:
                await owner.abort_transaction()
            else:
                assert await visible(transactional, "together") == sorted(expected)
                await owner.commit_transaction()
                expected += [value for each in values for value in each]
    assert await committed(transactional, "together") == sorted(expected)
    assert await offset_of(transactional, "together", "together", 0) == 12
    assert await offset_of(transactional, "together", "together", 1) == 22


@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_another_process_ends_the_transaction(
    transactional: KafkaCluster, processes: ProcessPoolExecutor, end: str
) -> None:
    """The owner asks for the same end again, and goes on."""
    topic = f"ended-{end}"
    await topics(transactional, topic)
    async with producer_on(transactional, topic) as owner:
        await owner.begin_transaction(shared=True)
        handle = owner.transaction_handle()
        await owner.send(topic, b"owner", partition=0)
        await elsewhere(processes, transactional, handle, topic, 1, (b"other",))
        await elsewhere(processes, transactional, handle, topic, end=end)
        expected = [b"other", b"owner"] if end == "commit" else []
        assert await committed(transactional, topic) == expected
        await (owner.commit_transaction if end == "commit" else owner.abort_transaction)()
        async with owner.transaction():
            owner.send(topic, b"then", partition=0)
    assert await committed(transactional, topic) == [*expected, *([b"then"])]


async def test_the_owner_is_not_there_any_more(
    transactional: KafkaCluster, processes: ProcessPoolExecutor
) -> None:
    """Whoever has the handle commits; that is how an engine recovers."""
    await topics(transactional, "orphan")
    owner = producer_on(transactional, "orphan")
    await owner.start()
    await owner.begin_transaction(shared=True)
    handle = owner.transaction_handle()
    await owner.send("orphan", b"owner", partition=0)
    assert not await nothing_is_open(transactional, "orphan")
    await elsewhere(processes, transactional, handle, "orphan", 1, (b"a",), end="commit")
    await elsewhere(processes, transactional, handle, "orphan", end="commit")
    assert await committed(transactional, "orphan") == [b"a", b"owner"]
    await owner.close()
    assert await committed(transactional, "orphan") == [b"a", b"owner"]


@pytest.mark.parametrize("end", ["commit", "abort"])
async def test_a_zombie_participant_is_refused(transactional: KafkaCluster, end: str) -> None:
    """Its handle is that of a transaction that has ended; the open one has nothing of it."""
    topic = f"zombie-participant-{end}"
    await topics(transactional, topic)
    async with producer_on(transactional, topic) as owner:
        await owner.begin_transaction(shared=True)
        old = owner.transaction_handle()
        async with joining(transactional, old) as early, joining(transactional, old) as late:
            await early.send(topic, b"early", partition=0)
            await (owner.commit_transaction if end == "commit" else owner.abort_transaction)()
            await owner.begin_transaction(shared=True)
            assert owner.transaction_handle() != old
            await owner.send(topic, b"owner", partition=2)
            for zombie, partition in ((early, 0), (late, 1)):
                with pytest.raises(ProducerError):
                    await zombie.send(topic, b"zombie", partition=partition)
                with pytest.raises((ProducerFencedError, AbortableTransactionError)):
                    await zombie.send_offsets_to_transaction({(topic, 0): 6}, topic)
                with pytest.raises((ProducerFencedError, AbortableTransactionError)):
                    await zombie.commit_transaction()
        async with joining(transactional, old) as idle:
            with pytest.raises(ProducerFencedError):
                await idle.send_offsets_to_transaction({(topic, 0): 5}, topic)
        await owner.commit_transaction()
    early_too = [b"early"] if end == "commit" else []
    assert await committed(transactional, topic) == [*early_too, b"owner"]
    assert await offset_of(transactional, topic, topic) is None


async def test_a_participant_of_a_fenced_owner_is_refused(transactional: KafkaCluster) -> None:
    await topics(transactional, "of-fenced")
    async with producer_on(transactional, "of-fenced") as owner:
        await owner.begin_transaction(shared=True)
        async with joining(transactional, owner.transaction_handle()) as participant:
            await participant.send("of-fenced", b"before", partition=0)
            async with producer_on(transactional, "of-fenced") as successor:
                with pytest.raises(ProducerError):
                    await participant.send("of-fenced", b"zombie", partition=1)
                with pytest.raises(ProducerFencedError):
                    await owner.commit_transaction()
                async with successor.transaction():
                    successor.send("of-fenced", b"after", partition=0)
    assert await committed(transactional, "of-fenced") == [b"after"]


async def test_what_a_participant_may_not_do(transactional: KafkaCluster) -> None:
    await topics(transactional, "limits")
    async with producer_on(transactional, "limits") as owner, owner.transaction(shared=True):
        async with joining(transactional, owner.transaction_handle()) as participant:
            with pytest.raises(IllegalStateError, match="in transaction"):
                await participant.begin_transaction()
            participant.send("limits", b"participant", partition=0)
        async with joining(transactional, owner.transaction_handle()) as participant:
            await participant.commit_transaction()
            with pytest.raises(IllegalStateError, match="joined one transaction"):
                await participant.begin_transaction()
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                participant.send("limits", b"too late", partition=0)
    assert await committed(transactional, "limits") == [b"participant"]


async def test_a_transaction_is_handed_over(
    transactional: KafkaCluster, processes: ProcessPoolExecutor
) -> None:
    """Who began it can be closed; others write and commit, with an offset that marks it."""
    await topics(transactional, "handed")
    place = TopicPartition("handed", 0)
    async with producer_on(transactional, "handed") as owner:
        assert await owner.committed_offsets("handed", [place]) == {}
        await owner.begin_transaction(shared=True)
        handle = owner.transaction_handle(hand_over=True)
    await elsewhere(processes, transactional, handle, "handed", 1, (b"other",))
    async with joining(transactional, handle) as committer:
        await committer.send_offsets_to_transaction(
            {place: OffsetAndMetadata(7, "by me")}, "handed"
        )
        await committer.commit_transaction()
    assert await committed(transactional, "handed") == [b"other"]
    async with producer_on(transactional, "handed") as next_owner:
        found = await next_owner.committed_offsets("handed", [place, TopicPartition("handed", 1)])
    assert {where: offset[:2] for where, offset in found.items()} == {place: (7, "by me")}


async def test_offsets_of_an_open_transaction_are_waited_for(transactional: KafkaCluster) -> None:
    await topics(transactional, "unstable")
    place = TopicPartition("unstable", 0)
    async with (
        producer_on(transactional, "unstable-1") as writer,
        producer_on(transactional, "unstable-2") as reader,
    ):
        await writer.begin_transaction()
        await writer.send_offsets_to_transaction({place: 5}, "unstable")
        with pytest.raises(ProducerTimeoutError, match="committed_offsets"):
            await reader.committed_offsets("unstable", [place], timeout=0.5)
        reading = asyncio.ensure_future(reader.committed_offsets("unstable", [place]))
        await writer.commit_transaction()
        assert (await reading)[place].offset == 5
