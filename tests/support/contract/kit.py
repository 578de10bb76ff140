"""What a test of the contract needs of a cluster: topics, producers, and the records afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import count
from typing import Any, Final

from aioproducer import KafkaError, Producer
from aioproducer.model import ConsumerRecord
from aioproducer.testing import MockProducer

_NUMBERS: Final = count()


class Kit(ABC):
    """A cluster, whatever plays it."""

    tells_aborted = True
    """True if readers know which transactions are open or were aborted."""

    def new_name(self) -> str:
        """A name for a topic or an id that no other test has."""
        return f"contract-{next(_NUMBERS)}"

    @abstractmethod
    async def topic(self, partitions: int = 1) -> str:
        """The name of a new topic."""

    @abstractmethod
    def producer(self, **options: Any) -> Producer:
        """A producer that was not started."""

    @abstractmethod
    async def read(self, topic: str) -> list[ConsumerRecord]:
        """The committed records, by partition and offset."""

    @abstractmethod
    async def fence(self, producer: Producer) -> None:
        """Let another producer start with the transactional id of ``producer``."""


class ScriptedKit(Kit):
    """A cluster that fails or holds records as the test says."""

    @abstractmethod
    def fail_next(self, producer: Producer, error: type[KafkaError]) -> None:
        """Let the cluster refuse the next record with ``error``, which is not retriable."""

    @abstractmethod
    async def hold(self, producer: Producer) -> None:
        """Let records of a started ``producer`` wait; call it before they are sent."""

    @abstractmethod
    async def release(self, producer: Producer) -> None:
        """Let held records, and all later ones, have their outcome."""

    def held_producer(self, **options: Any) -> Producer:
        """A producer for :meth:`hold`."""
        return self.producer(**options)


class MockKit(ScriptedKit):
    """Mock producers, each with a cluster of its own, and the same topics."""

    def __init__(self) -> None:
        self._topics: dict[str, int] = {}
        self._made: list[MockProducer] = []

    async def topic(self, partitions: int = 1) -> str:
        name = self.new_name()
        self._topics[name] = partitions
        return name

    def producer(self, *, auto_complete: bool = True, **options: Any) -> MockProducer:
        made = MockProducer(auto_complete=auto_complete, partitions=self._topics, **options)
        self._made.append(made)
        return made

    def held_producer(self, **options: Any) -> MockProducer:
        return self.producer(auto_complete=False, **options)

    async def read(self, topic: str) -> list[ConsumerRecord]:
        records = (each.as_read() for made in self._made for each in made.sent(topic))
        return sorted(records, key=lambda each: each[:3])

    async def fence(self, producer: Producer) -> None:
        _mock(producer).fence()

    def fail_next(self, producer: Producer, error: type[KafkaError]) -> None:
        assert _mock(producer).fail_next(error("refused"))

    async def hold(self, producer: Producer) -> None:
        assert not _mock(producer).pending_records

    async def release(self, producer: Producer) -> None:
        while _mock(producer).complete_next():
            pass


def _mock(producer: Producer) -> MockProducer:
    assert isinstance(producer, MockProducer)
    return producer
