"""Errors that aiokafka's users and ours catch, each by their own classes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import aiokafka.errors as theirs  # type: ignore[import-untyped]
import pytest

from aioproducer import errors as ours
from aioproducer.compat.aiokafka import errors
from aioproducer.compat.aiokafka.errors import CLASSES, class_of_code, translated, translating

CASES = [
    (ours.BootstrapError("x"), theirs.KafkaConnectionError),
    (ours.BrokerConnectionError("x"), theirs.KafkaConnectionError),
    (ours.BufferExhaustedError("x"), theirs.KafkaTimeoutError),
    (ours.CommitUnconfirmedError("x"), theirs.KafkaTimeoutError),
    (ours.DeliveryTimeoutError("x"), theirs.KafkaTimeoutError),
    (ours.DeliveryTimeoutError("x"), theirs.RequestTimedOutError),
    (ours.IllegalStateError("x"), theirs.IllegalOperation),
    (ours.IllegalStateError("x"), theirs.IllegalStateError),
    (ours.IllegalStateError("x"), AssertionError),
    (ours.InvalidPartitionError("x"), AssertionError),
    (ours.InvalidProducerEpochError("x"), theirs.ProducerFenced),
    (ours.InvalidProducerEpochError("x"), theirs.InvalidProducerEpoch),
    (ours.MetadataTimeoutError("x"), theirs.UnknownTopicOrPartitionError),
    (ours.MetadataTimeoutError("x"), theirs.KafkaTimeoutError),
    (ours.MessageTooLargeError("x"), theirs.MessageSizeTooLargeError),
    (ours.ProducerBrokenError("x"), theirs.KafkaError),
    (ours.ProducerClosedError("x"), theirs.ProducerClosed),
    (ours.ProducerFencedError("x"), theirs.ProducerFenced),
    (ours.ProtocolError("x"), theirs.KafkaProtocolError),
    (ours.RecordTooLargeError("x"), theirs.MessageSizeTooLargeError),
    (ours.RequestTimeoutError("x"), theirs.RequestTimedOutError),
    (ours.SaslAuthenticationFailedError("x"), theirs.SaslAuthenticationFailed),
    (ours.SaslAuthenticationFailedError("x"), theirs.AuthenticationFailedError),
    (ours.SslAuthenticationError("x"), theirs.KafkaConnectionError),
    (ours.TopicAuthorizationFailedError("x"), theirs.TopicAuthorizationFailedError),
    (ours.TransactionError("x"), theirs.KafkaError),
    (ours.UnknownTopicOrPartitionError("x"), theirs.UnknownTopicOrPartitionError),
    (ours.UnsupportedVersionError("x"), theirs.UnsupportedVersionError),
]


@pytest.mark.parametrize(("error", "theirs"), CASES, ids=[f"{a!r}-{b.__name__}" for a, b in CASES])
def test_an_error_is_of_their_class_and_of_ours(error: Any, theirs: type[Exception]) -> None:
    error.may_have_been_written = True
    made = translated(error)
    assert isinstance(made, theirs)
    assert isinstance(made, type(error))
    assert made.may_have_been_written
    assert str(made) == "x"
    assert "x" in repr(made)


CODES = [kind for kind in ours.KafkaError.__subclasses__() if class_of_code(kind.code)]


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_each_error_code_has_their_class(kind: type[ours.KafkaError]) -> None:
    made: Any = translated(kind("x"))
    assert issubclass(type(made), theirs.for_code(kind.code))
    assert issubclass(type(made), kind)
    assert made.errno == made.code == kind.code


@pytest.mark.parametrize("name", ours.__all__)
def test_every_error_has_a_form(name: str) -> None:
    kind = getattr(ours, name)
    if isinstance(kind, type) and issubclass(kind, ours.ProducerError):
        assert isinstance(translated(kind("x")), kind)


def test_the_reason_of_a_failed_transaction_is_caught_as_well() -> None:
    error = ours.AbortableTransactionError("the commit failed")
    error.__cause__ = ours.MessageTooLargeError("too large")
    made = translated(error)
    assert isinstance(made, theirs.MessageSizeTooLargeError)
    assert isinstance(made, ours.AbortableTransactionError)
    assert made.__cause__ is error.__cause__
    fenced = ours.FatalTransactionError("no more")
    fenced.__cause__ = ours.InvalidProducerEpochError("fenced")
    assert isinstance(translated(fenced), theirs.ProducerFenced)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ours.ConfigError("x"), ValueError),
        (ours.SerializationError("x"), TypeError),
        (ours.InvalidOffsetError("x"), ValueError),
        (KeyError("x"), KeyError),
    ],
)
def test_wrong_arguments_are_no_errors_of_kafka(error: Exception, kind: type[Exception]) -> None:
    assert translated(error) is error
    assert isinstance(error, kind)
    assert not isinstance(error, theirs.KafkaError)


def test_an_error_is_translated_once() -> None:
    made = translated(ours.ProducerClosedError("closed"))
    assert translated(made) is made
    assert type(translated(ours.ProducerClosedError("again"))) is type(made)
    assert made is not translated(ours.ProducerClosedError("closed"))


def test_a_raised_error_shows_no_other_one() -> None:
    cause = OSError("refused")

    def fail() -> None:
        with translating():
            raise ours.BrokerConnectionError("broker 1") from cause

    with pytest.raises(theirs.KafkaConnectionError) as caught:
        fail()
    assert caught.value.__cause__ is cause
    assert caught.value.__suppress_context__


def test_errors_travel_between_processes() -> None:
    made: Any = translated(ours.DeliveryTimeoutError("too late"))
    made.may_have_been_written = True
    made.add_note("in task 7")
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert (again.args, again.may_have_been_written) == (("too late",), True)
    assert again.__notes__ == ["in task 7"]


def test_names_are_found_in_the_module() -> None:
    assert errors.KafkaTimeoutError is theirs.KafkaTimeoutError
    assert errors.KafkaError is CLASSES["KafkaError"]
    with pytest.raises(AttributeError, match="KafkaErorr"):
        _ = errors.KafkaErorr


WITHOUT = """
import sys
sys.modules["aiokafka"] = None
import asyncio, inspect
from aioproducer import errors as ours
from aioproducer.compat.aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aioproducer.compat.aiokafka import RecordMetadata, TopicPartition, errors
from aioproducer.compat.aiokafka.errors import translated
for kind in vars(ours).values():
    if inspect.isclass(kind) and issubclass(kind, ours.ProducerError):
        made = translated(kind("x"))
        assert isinstance(made, kind), kind
timeout = translated(ours.DeliveryTimeoutError("x"))
assert isinstance(timeout, errors.KafkaTimeoutError)
assert isinstance(timeout, errors.RequestTimedOutError) and timeout.errno == 7
assert isinstance(timeout, errors.KafkaError) and errors.RequestTimedOutError.retriable
assert RecordMetadata._fields[2] == "topic_partition"
assert ConsumerRecord.__annotations__["serialized_key_size"]
stopped = translated(ours.ClientClosedError("x"), "ConsumerStoppedError")
assert isinstance(stopped, errors.ConsumerStoppedError)
assert not isinstance(stopped, errors.KafkaError)
async def main():
    for kind in (AIOKafkaProducer, AIOKafkaConsumer):
        client = kind(bootstrap_servers="127.0.0.1:1")
        try:
            await client.start()
        except errors.KafkaConnectionError as error:
            print(type(error).__name__)
        await client.stop()
asyncio.run(main())
"""


def test_all_of_it_works_without_aiokafka() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, 2 * "KafkaConnectionError\n"), done.stderr


def test_the_stand_ins_have_aiokafkas_names_codes_and_flags() -> None:
    code = (
        "import sys; sys.modules['aiokafka'] = None\n"
        "from aioproducer.compat.aiokafka.errors import CLASSES\n"
        "print({name: (getattr(each, 'errno', None), getattr(each, 'retriable', False), "
        "getattr(each, 'invalid_metadata', False), each.__bases__[0].__name__) "
        "for name, each in CLASSES.items()})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    stand_ins: dict[str, Any] = eval(done.stdout)
    assert len(stand_ins) > 60
    for name, (errno, retriable, invalid_metadata, base) in stand_ins.items():
        known = getattr(theirs, name)
        assert errno == getattr(known, "errno", None), name
        assert retriable == getattr(known, "retriable", False), name
        assert invalid_metadata == getattr(known, "invalid_metadata", False), name
        assert base == known.__bases__[0].__name__, name
