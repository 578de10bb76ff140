"""confluent-kafka's errors, messages and partitions, compared with the original's."""

from __future__ import annotations

import pickle
import random
import socket

import confluent_kafka as theirs
import pytest

from aioproducer import errors
from aioproducer.compat import confluent as ours
from aioproducer.compat.confluent.errors import (
    CODES,
    QueueFullError,
    api_error,
    broker_error,
    record_error,
)
from aioproducer.compat.confluent.transactions import group_of
from aioproducer.model import ConsumerGroupMetadata


def test_every_code_has_the_name_and_the_text_of_the_original() -> None:
    named = {
        name: value
        for name in dir(theirs.KafkaError)
        if isinstance(value := getattr(theirs.KafkaError, name), int)
    }
    assert named == CODES
    for name, code in named.items():
        mine, original = ours.KafkaError(code), theirs.KafkaError(code)
        assert getattr(ours.KafkaError, name) == code
        assert (mine.name(), mine.str()) == (original.name(), original.str())


@pytest.mark.parametrize(
    "arguments", [(3,), (3, "text"), (99_999,), (5, "r", True, True, True), (1, None)]
)
def test_an_error_is_as_the_original(arguments: tuple[object, ...]) -> None:
    mine, original = ours.KafkaError(*arguments), theirs.KafkaError(*arguments)  # type: ignore[arg-type]
    assert repr(mine) == repr(original)
    assert str(mine) == str(original)
    assert hash(mine) == hash(original)
    for ask in ("fatal", "retriable", "txn_requires_abort", "code", "str", "name"):
        assert getattr(mine, ask)() == getattr(original, ask)()


def test_errors_compare_by_their_codes() -> None:
    error = ours.KafkaError(3, "x")
    assert error == 3
    assert error == ours.KafkaError(3)
    assert error != 4
    assert error != "3"
    assert ours.KafkaError(-192) < error < ours.KafkaError(4)
    again = pickle.loads(pickle.dumps(ours.KafkaError(5, "r", fatal=True)))
    assert (repr(again), again.fatal()) == (
        'KafkaError{FATAL,code=LEADER_NOT_AVAILABLE,val=5,str="r"}',
        True,
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.DeliveryTimeoutError("late"), "_MSG_TIMED_OUT"),
        (errors.MetadataTimeoutError("late"), "_MSG_TIMED_OUT"),
        (errors.RecordTooLargeError("big"), "MSG_SIZE_TOO_LARGE"),
        (errors.InvalidPartitionError("none"), "_UNKNOWN_PARTITION"),
        (errors.BrokerConnectionError("down"), "_TRANSPORT"),
        (errors.ProducerClosedError("closed"), "_DESTROY"),
        (errors.TransactionAbortedError("gone"), "_PURGE_QUEUE"),
        (QueueFullError("full"), "_QUEUE_FULL"),
    ],
)
def test_a_report_has_librdkafkas_code_and_text(error: errors.ProducerError, code: str) -> None:
    made = record_error(error)
    assert made.name() == code
    assert made.str() == theirs.KafkaError(made.code()).str()
    assert made.cause is error


def test_error_cb_gets_librdkafkas_code_and_our_text() -> None:
    unresolved = errors.BrokerConnectionError("no such host")
    unresolved.__cause__ = socket.gaierror(socket.EAI_NONAME, "unknown")
    told = {
        unresolved: "_RESOLVE",
        errors.BrokerConnectionError("down"): "_TRANSPORT",
        errors.kafka_error(58, "wrong password"): "_AUTHENTICATION",
        errors.SslAuthenticationError("no certificate"): "_SSL",
    }
    for error, code in told.items():
        made = broker_error(error)
        assert (made.name(), made.str(), made.cause) == (code, str(error), error)


def test_calls_tell_what_to_do_next() -> None:
    late = api_error(errors.ProducerTimeoutError("not yet"))
    assert (late.code(), late.retriable(), late.fatal()) == (-185, True, False)
    to_abort = errors.AbortableTransactionError("a record failed")
    to_abort.__cause__ = errors.kafka_error(10, "too large")
    abortable = api_error(to_abort)
    assert (abortable.code(), abortable.txn_requires_abort(), abortable.fatal()) == (
        10,
        True,
        False,
    )
    fenced = api_error(errors.ProducerFencedError("newer"))
    assert (fenced.name(), fenced.fatal(), fenced.retriable()) == ("_FENCED", True, False)


def test_a_message_is_as_the_original() -> None:
    fields = ("t", 1, 2, b"k", b"value", [("a", b"b")], None, (1, 4), 5.67, 3)
    mine, original = ours.Message(*fields), theirs.Message(*fields)  # type: ignore[arg-type]
    for ask in [
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        "error",
        "timestamp",
        "latency",
        "leader_epoch",
    ]:
        assert getattr(mine, ask)() == getattr(original, ask)(), ask
    assert len(mine) == len(original) == 5
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert mine != ours.Message(*fields[:-1], 4)
    with pytest.raises(TypeError):
        hash(mine)


def test_partitions_of_ten_thousand_keys() -> None:
    choose = random.Random(7)
    for _ in range(10_000):
        key, count = choose.randbytes(choose.randrange(1, 40)), choose.randrange(1, 200)
        for name in ("murmur2", "consistent", "fnv1a"):
            assert getattr(ours, name)(key, count) == getattr(theirs, name)(key, count), name


def test_topic_partitions_are_as_the_original() -> None:
    mine, original = ours.TopicPartition("a", 1, 5), theirs.TopicPartition("a", 1, 5)
    assert repr(mine) == repr(original)
    assert mine == ours.TopicPartition("a", 1)
    assert mine < ours.TopicPartition("a", 2) <= ours.TopicPartition("b")
    assert (mine.error, mine.metadata, mine.leader_epoch) == (None, None, None)
    assert ours.TopicPartition("a").offset == theirs.TopicPartition("a").offset


def test_a_groups_member_is_read_from_the_originals_bytes() -> None:
    consumer = theirs.Consumer({"group.id": "billing", "group.instance.id": "one"})
    assert group_of(consumer.consumer_group_metadata()) == ConsumerGroupMetadata(
        "billing", -1, "", "one"
    )
    consumer.close()
    with pytest.raises(TypeError, match="expected bytes"):
        group_of("billing")
    with pytest.raises(ours.KafkaException) as raised:
        group_of(b"billing")
    assert raised.value.args[0].name() == "_BAD_MSG"


def test_programs_may_derive_from_a_message() -> None:
    class Order(ours.Message):
        """A message with a name of its own."""

    assert Order("orders", 0, 5, b"k", b"v").topic() == "orders"
