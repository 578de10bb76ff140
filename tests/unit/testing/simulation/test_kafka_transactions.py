"""Coordinators of the model: time-outs, moves, crashes, and the last epochs of a producer id."""

from __future__ import annotations

from typing import Any

import pytest

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.kafka.transaction_coordinator import (
    MAX_EPOCH,
    PREVIOUS_STATES,
    TransactionMetadata,
    TransactionState,
)
from tests.support.conversations.chat import Chat
from tests.support.conversations.lines import ModelLine

NAME = "orders"
VERSIONS = [1, 2]


def held(version: int = 2, **options: tuple[float, float]) -> Chat:
    return Chat(ModelLine.of(3, ClusterOptions(transaction_version=version, **options)), "topic")  # type: ignore[arg-type]


def line_of(chat: Chat) -> ModelLine:
    assert isinstance(chat.line, ModelLine)
    return chat.line


def known(chat: Chat) -> TransactionMetadata:
    return line_of(chat).model.transactions()[NAME]


def write(chat: Chat, producer: tuple[int, int], version: int, sequence: int = 0) -> ErrorCode:
    if version == 1:
        chat.add_partitions(NAME, producer)
    body = chat.produce(
        sequence,
        producer=producer,
        transactional_id=NAME,
        version=11 if version == 1 else 12,
        patient=True,
    )
    return ErrorCode(body.responses[0].partition_responses[0].error_code)


def end(
    chat: Chat, producer: tuple[int, int], version: int, *, commit: bool = True
) -> tuple[int, int]:
    return chat.end(NAME, producer, commit=commit, version=4 if version == 1 else 5)


def visible(chat: Chat) -> list[bool | None]:
    return [each.visible for each in line_of(chat).model.log(chat.topic, 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_beyond_its_time_is_aborted(version: int) -> None:
    chat = held(version)
    producer = chat.init(NAME, timeout=1000)
    assert write(chat, producer, version) == ErrorCode.NONE
    assert visible(chat) == [None]
    line_of(chat).wait(2.0)
    assert visible(chat) == [False]
    assert known(chat).epoch > producer[1]
    assert write(chat, producer, version, 1) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_in_its_time_is_not_aborted() -> None:
    chat = held()
    producer = chat.init(NAME, timeout=1000)
    write(chat, producer, 2)
    producer = end(chat, producer, 2)
    line_of(chat).wait(0.9)
    write(chat, producer, 2)
    line_of(chat).wait(0.9)
    assert visible(chat) == [True, None]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fenced_producer_can_neither_write_nor_end(version: int) -> None:
    chat = held(version)
    old = chat.init(NAME)
    write(chat, old, version)
    line_of(chat).model.fence(NAME, line_of(chat).now)
    line_of(chat).wait(0.5)
    assert visible(chat) == [False]
    assert write(chat, old, version, 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    new = chat.init(NAME)
    assert new[1] > old[1]


def test_markers_come_later_and_one_by_one() -> None:
    chat = held(markers=(0.5, 0.5))
    producer = chat.init(NAME)
    write(chat, producer, 2)
    line = line_of(chat)
    line.model.coordinators.transactions.end(NAME, *producer, commit=True, version=2, now=line.now)
    assert known(chat).state is TransactionState.PREPARE_COMMIT
    assert visible(chat) == [None]
    line.wait(1.0)
    assert known(chat).state is TransactionState.COMPLETE_COMMIT
    assert visible(chat) == [True]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_the_next_transaction_waits_for_the_markers_of_the_last_one(
    version: int, commit: bool
) -> None:
    chat = held(version, markers=(5.0, 5.0))
    producer = chat.init(NAME)
    write(chat, producer, version)
    following = ended(chat, producer, version, commit=commit)
    assert (following != producer) is (version == 2)
    assert everything_asked(chat, following, version) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    line_of(chat).wait(6.0)
    last = ended(chat, following, version, commit=False)
    assert (last != following) is (version == 2)


def test_the_next_producer_id_waits_for_the_markers_of_the_last_epoch() -> None:
    chat = held(markers=(5.0, 5.0))
    producer = chat.init(NAME)
    known(chat).epoch = MAX_EPOCH - 1
    last = producer[0], MAX_EPOCH - 1
    write(chat, last, 2)
    following = ended(chat, last, 2, commit=True)
    assert following[0] != producer[0]
    assert everything_asked(chat, following, 2) == {ErrorCode.CONCURRENT_TRANSACTIONS}
    line_of(chat).wait(6.0)
    assert ended(chat, following, 2, commit=False) == (following[0], 1)


def test_a_new_coordinator_still_writes_the_markers_of_the_last_transaction() -> None:
    chat = held(markers=(5.0, 5.0))
    producer = chat.init(NAME)
    write(chat, producer, 2)
    following = ended(chat, producer, 2, commit=True)
    line = line_of(chat)
    partition = line.model.coordinators.transactions.partition_of(NAME)
    new = next(each for each in partition.replicas if each != chat.coordinator(NAME))
    line.model.move_leader(*partition.where, new, line.now)
    line.wait(1.0)
    assert chat.coordinator(NAME) == new
    assert everything_asked(chat, following, 2) == {ErrorCode.CONCURRENT_TRANSACTIONS}


def ended(chat: Chat, producer: tuple[int, int], version: int, *, commit: bool) -> tuple[int, int]:
    """The identity that follows, when the coordinator has taken the end."""
    answer = line_of(chat).model.coordinators.transactions.end(
        NAME, *producer, commit=commit, version=version, now=line_of(chat).now
    )
    if version == 1 and answer.code == ErrorCode.INVALID_TXN_STATE:
        return producer  # nothing is open
    assert answer.code == ErrorCode.NONE
    return answer.producer_id, answer.epoch


def everything_asked(chat: Chat, producer: tuple[int, int], version: int) -> set[ErrorCode]:
    """The answers to all requests of a producer that has begun its next transaction."""
    now = line_of(chat).now
    transactions = line_of(chat).model.coordinators.transactions
    place = TopicPartition(chat.topic, 0)
    codes = {
        transactions.end(NAME, *producer, commit=commit, version=version, now=now).code
        for commit in (True, False)
    }
    codes |= {transactions.add_partitions(NAME, *producer, [place], version=version, now=now)}
    codes |= {transactions.initialize(NAME, 60_000, producer, now).code}
    return codes


def test_markers_wait_for_a_leader() -> None:
    chat = held(markers=(0.1, 0.1), failure_detection=(3.0, 3.0))
    producer = chat.init(NAME)
    write(chat, producer, 2)
    line = line_of(chat)
    line.model.crash(chat.leader, line.now)
    line.model.coordinators.transactions.end(NAME, *producer, commit=True, version=2, now=line.now)
    line.wait(1.0)
    assert visible(chat) == [None]
    line.wait(5.0)
    assert visible(chat) == [True]


def test_markers_wait_for_enough_replicas() -> None:
    """Else the log would grow by a marker for each attempt, and no follower would reach its end."""
    chat = held(markers=(0.1, 0.1))
    producer = chat.init(NAME)
    write(chat, producer, 2)
    line = line_of(chat)
    partition = line.model.partition(chat.topic, 0)
    partition.config = {**partition.config, "min.insync.replicas": "2"}
    for follower in chat.followers:
        line.model.shrink_isr(chat.topic, 0, follower, line.now, 3.0)
    line.model.coordinators.transactions.end(NAME, *producer, commit=True, version=2, now=line.now)
    line.wait(2.0)
    assert (visible(chat), partition.log.end_offset) == ([None], 1)
    line.wait(3.0)
    assert (visible(chat), partition.log.end_offset) == ([True], 2)


def test_a_new_coordinator_loads_and_goes_on() -> None:
    chat = held(coordinator_load=(1.0, 1.0))
    producer = chat.init(NAME)
    write(chat, producer, 2)
    line = line_of(chat)
    old = chat.coordinator(NAME)
    partition = line.model.coordinators.transactions.partition_of(NAME)
    new = next(each for each in partition.replicas if each != old)
    line.model.move_leader(*partition.where, new, line.now)
    asked: dict[str, Any] = {
        "transactional_id": NAME,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": True,
    }
    at_the_old = chat.ask(26, 5, to=old, **asked)
    at_the_new = chat.ask(26, 5, to=new, **asked)
    assert at_the_old.error_code == ErrorCode.NOT_COORDINATOR
    assert at_the_new.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    end(chat, producer, 2)
    line.wait(1.0)
    assert visible(chat) == [True]


def test_epochs_of_version_1_end_with_another_producer_id() -> None:
    chat = held(1)
    producer = chat.init(NAME)
    known(chat).epoch = MAX_EPOCH - 2
    last = chat.init(NAME)
    assert last == (producer[0], MAX_EPOCH - 1)
    assert write(chat, last, 1) == ErrorCode.NONE
    end(chat, last, 1)
    other = chat.init(NAME)
    assert other[0] != producer[0]
    assert other[1] == 0


def test_epochs_of_version_2_end_with_another_producer_id() -> None:
    chat = held()
    producer = chat.init(NAME)
    known(chat).epoch = MAX_EPOCH - 1
    last = (producer[0], MAX_EPOCH - 1)
    write(chat, last, 2)
    other = end(chat, last, 2)
    assert other[0] != producer[0]
    assert other[1] == 0
    assert end(chat, last, 2) == other, "a repeated end"
    assert write(chat, other, 2) == ErrorCode.NONE
    end(chat, other, 2)
    line_of(chat).wait(0.5)
    assert visible(chat) == [True, True]


def test_the_epoch_beyond_the_last_one_fences() -> None:
    chat = held()
    producer = chat.init(NAME)
    known(chat).epoch = MAX_EPOCH - 1
    write(chat, (producer[0], MAX_EPOCH - 1), 2)
    line_of(chat).model.time_out_transaction(NAME, line_of(chat).now)
    line_of(chat).wait(0.5)
    assert known(chat).epoch == MAX_EPOCH
    assert chat.init(NAME)[1] == 0


def test_no_state_follows_an_illegal_one() -> None:
    metadata = TransactionMetadata(NAME, 1, 1000)
    for state in TransactionState:
        metadata.state = state
        for following in TransactionState:
            if state not in PREVIOUS_STATES[following]:
                with pytest.raises(AssertionError, match="can't go"):
                    metadata.transit(following)
