"""Serializers that are given as classes alone."""

from __future__ import annotations

from typing import assert_type

from typing_extensions import Buffer

from aioproducer import Producer, ProducerConfig

Plain = Buffer | str
BROKERS = "localhost:9092"


class OfText:
    def serialize(self, topic: str, data: str, headers: list[tuple[str, bytes | None]]) -> bytes:
        return data.encode()


class OfInt:
    def serialize(self, topic: str, data: int, headers: list[tuple[str, bytes | None]]) -> bytes:
        return bytes(data)


class OldOfFloat:
    def serialize(self, topic: str, data: float) -> bytes:
        return str(data).encode()


class OldOfComplex:
    def serialize(self, topic: str, data: complex) -> bytes:
        return str(data).encode()


def both() -> None:
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=OfText, value_serializer=OfInt),
        Producer[str, int],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=OldOfFloat, value_serializer=OfInt),
        Producer[float, int],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=str.encode, value_serializer=OfText),
        Producer[str, str],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=OfText(), value_serializer=OldOfFloat),
        Producer[str, float],
    )


def one(config: ProducerConfig) -> None:
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OldOfComplex), Producer[Plain, complex]
    )
    assert_type(Producer(bootstrap_servers=BROKERS, key_serializer=OfInt), Producer[int, Plain])
    Producer[str, int](bootstrap_servers=BROKERS, value_serializer=OfInt)
    assert_type(Producer(config, key_serializer=OfInt, value_serializer=OfText), Producer[int, str])


def objects_of_the_same_classes() -> None:
    assert_type(
        Producer(bootstrap_servers=BROKERS, key_serializer=OfText(), value_serializer=OfInt()),
        Producer[str, int],
    )
    assert_type(
        Producer(bootstrap_servers=BROKERS, value_serializer=OldOfFloat()), Producer[Plain, float]
    )
