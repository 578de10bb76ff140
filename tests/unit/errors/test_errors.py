"""Errors carry their facts, and survive copies and other processes."""

from __future__ import annotations

import builtins
import copy
import inspect
import pickle
import re

import pytest

import aioproducer
from aioproducer import errors
from aioproducer.errors import (
    KafkaError,
    NetworkError,
    ProducerError,
    ProducerTimeoutError,
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    SerializationError,
    UsageError,
    code_name,
    kafka_error,
)
from aioproducer.errors.broker import RETRIABLE, ErrorCode, error_about, explain
from aioproducer.errors.client import anew
from aioproducer.model import Node

ALL = {
    name: each
    for name, each in vars(errors).items()
    if inspect.isclass(each) and issubclass(each, ProducerError)
}
UNLISTED = (KafkaError, errors.UnlistedKafkaError, errors.UnlistedRetriableError)
KAFKA = {
    name: each
    for name, each in ALL.items()
    if issubclass(each, KafkaError) and each not in UNLISTED
}
HELPERS = {
    "Disposition",
    "Written",
    "anew",
    "code_name",
    "error_about",
    "explain",
    "kafka_error",
}


def drawn_tree() -> list[tuple[str, str, str | None]]:
    """Each line of the tree in the module's docstring: class, the class it hangs from, builtin."""
    lines = re.findall(r"^    ([│├└─ ]*)(\w+)(?: +\((\w+)\))?", errors.__doc__ or "", re.MULTILINE)
    path: list[str] = []
    tree = []
    for indent, name, builtin in lines:
        depth = len(indent) // 4
        del path[depth:]
        tree.append((name, path[-1] if path else "Exception", builtin or None))
        path.append(name)
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    tree = drawn_tree()
    assert {name for name, _, _ in tree} == set(ALL) - set(KAFKA) - {
        each.__name__ for each in UNLISTED[1:]
    }
    for name, parent, builtin in tree:
        bases = [base.__name__ for base in ALL[name].__bases__]
        expected = [parent, builtin] if builtin else [parent]
        assert bases == expected, name


@pytest.mark.parametrize(
    ("name", "promised"),
    [
        ("ConfigError", (UsageError, ValueError)),
        ("SerializationError", (UsageError, TypeError)),
        ("NotPreparedError", (SerializationError, TypeError)),
        ("RecordDeserializationError", (SerializationError, TypeError)),
        ("RecordTooLargeError", (UsageError, ValueError)),
        ("InvalidPartitionError", (UsageError, ValueError)),
        ("ProducerClosedError", (UsageError, RuntimeError)),
        ("IllegalStateError", (UsageError, RuntimeError)),
        ("WrongLoopError", (UsageError, RuntimeError)),
        ("MissingExtraError", (UsageError, ImportError)),
        ("DeliveryTimeoutError", (ProducerTimeoutError, TimeoutError)),
        ("BufferExhaustedError", (ProducerTimeoutError, TimeoutError)),
        ("MetadataTimeoutError", (ProducerTimeoutError, TimeoutError)),
        ("PreparationTimeoutError", (ProducerTimeoutError, TimeoutError)),
        ("RequestTimeoutError", (ProducerTimeoutError, TimeoutError)),
        ("BootstrapError", (NetworkError, ConnectionError)),
        ("BrokerConnectionError", (NetworkError, ConnectionError)),
        ("ProtocolError", (NetworkError, ConnectionError)),
        ("UnsupportedVersionError", (ProducerError,)),
        ("ProducerBrokenError", (ProducerError,)),
        # what a broker says about a record that a UsageError could have said before
        ("MessageTooLargeError", (KafkaError, errors.RecordTooLargeError, ValueError)),
        ("RecordListTooLargeError", (KafkaError, errors.RecordTooLargeError, ValueError)),
        ("InvalidTopicError", (KafkaError, UsageError, ValueError)),
        ("InvalidTimestampError", (KafkaError, UsageError, ValueError)),
        ("BrokerUnsupportedVersionError", (KafkaError, errors.UnsupportedVersionError)),
    ],
)
def test_promised_bases(name: str, promised: tuple[type, ...]) -> None:
    for base in promised:
        assert issubclass(ALL[name], base), base


def test_a_usage_error_is_also_what_python_users_catch() -> None:
    for name, each in ALL.items():
        if issubclass(each, UsageError) and each is not UsageError:
            assert issubclass(each, ValueError | TypeError | RuntimeError | ImportError), name


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_error_is_documented_and_survives_pickle_and_copy(name: str) -> None:
    assert ALL[name].__doc__, name
    error = ALL[name](f"what happened to {name}")
    twins = (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error))
    for twin in twins:
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.retriable == error.retriable
        assert twin.refresh_metadata == error.refresh_metadata
        if isinstance(error, KafkaError) and isinstance(twin, KafkaError):
            assert (twin.code, twin.name) == (error.code, error.name)


@pytest.mark.parametrize("code", sorted(ErrorCode), ids=lambda code: code.name)
def test_each_code_of_kafka_becomes_its_error(code: ErrorCode) -> None:
    error = kafka_error(int(code), "what the broker said")
    assert str(error) == "what the broker said"
    assert error.code == int(code)
    assert error.name == code_name(code) == code.name
    assert error.retriable is (code in RETRIABLE)


@pytest.mark.parametrize("code", [max(ErrorCode) + 1, 9999, -2, -32768, 32767])
def test_a_code_that_nobody_knows_keeps_its_number(code: int) -> None:
    error = kafka_error(code, "odd")
    assert (error.code, error.name, error.retriable) == (code, f"ERROR_{code}", False)
    assert code_name(code) == f"ERROR_{code}"
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, twin.name) == (type(error), code, f"ERROR_{code}")
    assert kafka_error(code + 1, "other").code == code + 1, "codes are kept apart"
    assert type(error).code == KafkaError.code, "the class is not changed by an instance"


def test_one_class_for_one_code() -> None:
    codes = [each.code for each in KAFKA.values()]
    assert len(codes) == len(set(codes))


def test_a_subclass_without_code_is_not_registered() -> None:
    class SpecialError(errors.CorruptMessageError):
        pass

    assert type(kafka_error(2, "x")) is errors.CorruptMessageError
    assert SpecialError("x").code == 2


def test_what_is_retried_apart_from_brokers_answers() -> None:
    assert {
        name for name, each in ALL.items() if not issubclass(each, KafkaError) and each.retriable
    } == {
        "NetworkError",
        "BootstrapError",
        "BrokerConnectionError",
        "ProtocolError",
        "RequestTimeoutError",
        "TokenEndpointError",
        "SchemaRegistryUnavailableError",
    }


def test_an_error_about_something_names_it_and_what_to_do() -> None:
    error = error_about("topic 'orders'", 17)
    assert type(error) is errors.InvalidTopicError
    assert str(error) == f"topic 'orders': {explain(17)}"


def test_public_names_are_there_and_builtins_are_not_shadowed() -> None:
    for name in errors.__all__:
        assert hasattr(errors, name), name
    assert set(errors.__all__) <= set(ALL) | HELPERS
    assert not set(ALL) & set(vars(builtins)), "a name that shadows a builtin misleads"
    assert aioproducer.ProducerError is ProducerError


def test_what_a_peer_says_gives_a_terminal_no_orders_and_begins_no_line() -> None:
    error = kafka_error(
        ErrorCode.INVALID_TOPIC_EXCEPTION, "\x1b[2Jgrüße\x9b\u202e\nCRITICAL forged\r"
    )
    assert str(error).count("\n") == 1
    first, second = str(error).split("\n")
    assert "\\x1b[2Jgrüße\\x9b\\u202e" in first
    assert second.startswith("  CRITICAL forged\\r")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(anew(error)) == str(error)


@pytest.mark.parametrize("host", ["a\nCRITICAL forged", "a\x1b[2J", "a\x9b", "a\u202eb"])
def test_the_address_of_a_broker_can_be_shown(host: str) -> None:
    assert str(Node(1, host, 9092)).isprintable()


CLASSES = [
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    errors.SchemaRegistryAuthenticationError,
    errors.IncompatibleSchemaError,
    errors.SchemaNotFoundError,
    errors.InvalidSchemaError,
]


@pytest.mark.parametrize("error_class", CLASSES)
def test_the_facts_survive_a_copy(error_class: type[SchemaRegistryError]) -> None:
    error = error_class("no", url="http://registry/subjects", status=404, error_code=40401)
    for twin in (anew(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is error_class
        assert str(twin) == "no"
        assert (twin.url, twin.status, twin.error_code) == ("http://registry/subjects", 404, 40401)


def test_a_registry_that_is_away_is_a_connection_error() -> None:
    assert issubclass(SchemaRegistryUnavailableError, ConnectionError)
    assert [each for each in CLASSES if each.retriable] == [SchemaRegistryUnavailableError]
