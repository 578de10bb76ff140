"""What users may import, and that it is what they see."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import types
from pathlib import Path

import pytest

import aioproducer
from aioproducer import errors

ROOT = Path(__file__).parents[2]

PUBLIC = {
    "AbortableTransactionError",
    "AuthenticationError",
    "BootstrapError",
    "BrokerHealth",
    "BrokerConnectionError",
    "BufferExhaustedError",
    "CommitUnconfirmedError",
    "ClusterCheck",
    "ConfigError",
    "ConsistentRandomPartitioner",
    "ConsumerGroupMetadata",
    "DeliveryTimeoutError",
    "FailedRecord",
    "FatalTransactionError",
    "Health",
    "IllegalStateError",
    "InvalidOffsetError",
    "InvalidPartitionError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaError",
    "MetadataTimeoutError",
    "Murmur3Partitioner",
    "Node",
    "OffsetAndMetadata",
    "OffsetRange",
    "PartitionInfo",
    "Partitioner",
    "Partitions",
    "Producer",
    "ProducerBrokenError",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerError",
    "ProducerFencedError",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerTimeoutError",
    "ProtocolError",
    "RecordMetadata",
    "RecordTooLargeError",
    "RoundRobinPartitioner",
    "SendReport",
    "SerializationError",
    "Serializer",
    "SslAuthenticationError",
    "TokenEndpointError",
    "TokenError",
    "TopicCheck",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionHandle",
    "UsageError",
    "WrongLoopError",
    "__accelerated__",
    "__version__",
    "errors",
}
"""Taking a name away, or adding one, is a decision: it is made here."""


def test_the_names_of_the_package() -> None:
    assert set(aioproducer.__all__) == PUBLIC
    assert len(aioproducer.__all__) == len(set(aioproducer.__all__))


def modules() -> list[str]:
    found = [
        each.name
        for each in pkgutil.walk_packages(aioproducer.__path__, "aioproducer.")
        if not each.name.endswith("__main__")
    ]
    return ["aioproducer", *found]


@pytest.mark.parametrize("name", modules())
def test_every_name_in_all_is_there_and_every_module_says_what_it_is(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} has no docstring"
    for each in getattr(module, "__all__", ()):
        assert hasattr(module, each), f"{name}.__all__ has {each}"


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__", "errors"}))
def test_every_public_class_and_method_is_documented(name: str) -> None:
    public = getattr(aioproducer, name)
    assert inspect.getdoc(public), name
    if not inspect.isclass(public):
        return
    for attribute, value in vars(public).items():
        if not attribute.startswith("_") and isinstance(value, types.FunctionType | property):
            assert inspect.getdoc(value), f"{name}.{attribute}"


def test_every_error_is_found_under_errors_and_nothing_else_is_private_there() -> None:
    classes = {
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.ProducerError)
    }
    own = {name for name in classes if not issubclass(getattr(errors, name), errors.KafkaError)}
    assert own | {"KafkaError"} <= set(errors.__all__)
    assert {each for each in PUBLIC if each.endswith("Error")} <= classes


def test_the_version_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'version = "{aioproducer.__version__}"' in text


def test_the_package_is_typed() -> None:
    assert (ROOT / "aioproducer" / "py.typed").is_file()


BUILTIN_ERRORS = {
    "Exception",
    "RuntimeError",
    "ValueError",
    "TypeError",
    "KeyError",
    "OSError",
    "ConnectionError",
    "TimeoutError",
    "asyncio.TimeoutError",
}
CHECKED_BY_THEIR_CALLERS = ("config", "metrics", "records", "partitioning.py", "errors.py")
"""What they raise becomes a ConfigError, or tells of a mistake in our own code."""


def test_only_errors_of_ours_are_raised() -> None:
    """``except ProducerError`` catches everything; shells (cli, testing) speak for themselves."""
    foreign = [
        f"{path.relative_to(ROOT)}:{node.lineno} raises {ast.unparse(node.exc.func)}"
        for path in sorted((ROOT / "aioproducer").rglob("*.py"))
        if path.relative_to(ROOT / "aioproducer").parts[0]
        not in (*CHECKED_BY_THEIR_CALLERS, "cli", "testing", "spark")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and ast.unparse(node.exc.func) in BUILTIN_ERRORS
    ]
    assert foreign == []
