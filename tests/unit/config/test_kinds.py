from __future__ import annotations

import pickle
from typing import Any

import pytest

from aioproducer import serialization
from aioproducer.config import JavaSerializer, ProducerConfig
from aioproducer.engine.core.hooks import Hooks
from aioproducer.errors import ConfigError

JAVA = "org.apache.kafka"


class Hook:
    def partition(self, topic: str, key: bytes | None, value: bytes | None, of: Any) -> int:
        return 0

    def serialize(self, topic: str, value: object) -> bytes:
        return b""

    def on_send(self, record: object) -> object:
        return record


class AckHook:
    def on_acknowledgement(self, *arguments: object) -> None: ...


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**{"bootstrap_servers": "a:1", **options})


def from_properties(**properties: Any) -> ProducerConfig:
    dotted = {name.replace("_", "."): value for name, value in properties.items()}
    return ProducerConfig.from_properties({"bootstrap.servers": "a:1", **dotted})


@pytest.mark.parametrize("name", ["partitioner", "key_serializer", "value_serializer"])
def test_hook_is_held_as_given(name: str) -> None:
    for hook in (None, Hook(), Hook, lambda *arguments: None, len):
        assert getattr(config(**{name: hook}), name) is hook


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitioner", AckHook()),
        ("partitioner", "sticky"),
        ("partitioner", 1),
        ("key_serializer", AckHook()),
        ("value_serializer", "json"),
        ("interceptor_classes", Hook()),
        ("interceptor_classes", "Hook"),
        ("interceptor_classes", [object()]),
        ("interceptor_classes", ["Hook"]),
        ("interceptor_classes", None),
    ],
)
def test_what_is_no_hook(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}=.*: expected "):
        config(**{name: value})


@pytest.mark.parametrize("name", ["round_robin", "murmur3", "Murmur3", "consistent_random"])
def test_named_partitioners(name: str) -> None:
    assert config(partitioner=name).partitioner == name.lower()


def test_librdkafkas_name_for_kafkas_own_rule() -> None:
    assert config(partitioner="murmur2_random").partitioner is None


def test_interceptors_become_a_tuple() -> None:
    hooks = [Hook(), AckHook(), Hook, lambda: Hook()]
    assert config(interceptor_classes=hooks).interceptor_classes == tuple(hooks)
    assert config(interceptor_classes=iter(hooks)).interceptor_classes == tuple(hooks)


@pytest.mark.parametrize("name", ["String", "ByteArray", "ByteBuffer", "Bytes"])
def test_java_serializers_that_python_does_not_need(name: str) -> None:
    class_name = f"{JAVA}.common.serialization.{name}Serializer"
    made = from_properties(key_serializer=class_name, value_serializer=f" {class_name} ")
    assert (made.key_serializer, made.value_serializer) == (None, None)


@pytest.mark.parametrize("name", ["Short", "Integer", "Long", "Float", "Double", "UUID"])
def test_java_serializers_that_are_built_in(name: str) -> None:
    class_name = f"{JAVA}.common.serialization.{name}Serializer"
    made = from_properties(key_serializer=class_name, value_serializer=f" {class_name} ")
    assert made.key_serializer == made.value_serializer == JavaSerializer(f"{name}Serializer")
    assert pickle.loads(pickle.dumps(made)) == made.replace() == made
    hooks = Hooks(made)
    for serializer in (hooks.serializers.key, hooks.serializers.value):
        assert serializer is not None
        assert isinstance(serializer.given, getattr(serialization, f"{name}Serializer"))


@pytest.mark.parametrize(
    ("java", "counterpart"),
    [
        ("KafkaAvroSerializer", "AvroSerializer"),
        ("json.KafkaJsonSchemaSerializer", "JsonSchemaSerializer"),
        ("protobuf.KafkaProtobufSerializer", "ProtobufSerializer"),
    ],
)
def test_serializers_of_confluents_registry_have_counterparts(java: str, counterpart: str) -> None:
    with pytest.raises(ConfigError, match=rf"aioproducer\.schema_registry\.{counterpart} "):
        from_properties(value_serializer=f"io.confluent.kafka.serializers.{java}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.serializer", f"{JAVA}.common.serialization.ListSerializer"),
        ("key.serializer", "com.example.LongSerializer"),
        ("key.serializer", f"{JAVA}.common.serialization.Long"),
        ("value.serializer", "io.confluent.kafka.serializers.KafkaAvroSerializer"),
        ("partitioner.class", "com.example.MyPartitioner"),
        ("interceptor.classes", "com.example.A,com.example.B"),
    ],
)
def test_other_java_classes_are_refused_with_the_keyword_to_use(name: str, value: str) -> None:
    properties = {"bootstrap.servers": "a:1", name: value}
    keyword = name.removesuffix(".class").replace(".", "_")
    with pytest.raises(ConfigError, match=rf"^{name}='{value}' .*\(…, {keyword}="):
        ProducerConfig.from_properties(properties)
    override: Any = {keyword: [Hook] if keyword == "interceptor_classes" else Hook}
    made = ProducerConfig.from_properties(properties, **override)
    assert getattr(made, keyword) in (Hook, (Hook,))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"{JAVA}.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("round_robin", "round_robin"),
        (" murmur3 ", "murmur3"),
        ("consistent_random", "consistent_random"),
        ("murmur2_random", None),
        (Hook, Hook),
    ],
)
def test_partitioner_class(value: object, expected: object) -> None:
    assert from_properties(partitioner_class=value).partitioner == expected


def test_no_interceptors_in_a_file() -> None:
    assert from_properties(interceptor_classes=" ").interceptor_classes == ()
