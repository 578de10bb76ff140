"""What is done in transactions, and by whom. Every load and every client stands here, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.clients import Settings

BROKERS: Final = 3
PROTOCOLS: Final = (1, 2)
"""The levels of Kafka's feature ``transaction.version``: before KIP-890, and with it."""


@dataclass(frozen=True, slots=True)
class Load:
    """Transactions of one size, one after another, each committed."""

    name: str
    records: int
    """In each transaction."""
    transactions: int
    """How many are measured in a round, unless the command line says otherwise."""
    warm_up: int
    """How many go before: connections, caches, and the compilers of Java."""
    partitions: int
    spread: bool
    """Whether each record names its partition, in turn; else the client's partitioner chooses."""
    value_bytes: int = 100

    def values(self) -> Sequence[bytes]:
        """Those of each transaction, all different."""
        return [b"%0*d" % (self.value_bytes, number) for number in range(self.records)]

    def partitions_of(self, transaction: int) -> Sequence[int | None]:
        """Where the records of a transaction go."""
        if not self.spread:
            return [None] * self.records
        return [(transaction + number) % self.partitions for number in range(self.records)]


LOADS: Final = {
    load.name: load
    for load in (
        Load("1-record", 1, 100, warm_up=30, partitions=3, spread=True),
        Load("10-records", 10, 100, warm_up=30, partitions=3, spread=True),
        Load("100000-records", 100_000, 5, warm_up=2, partitions=6, spread=False),
    )
}


@dataclass(frozen=True, slots=True)
class Client:
    """Its driver is the class ``driver`` of ``drivers.py``; None: ``TransactionLoop.java``."""

    name: str
    driver: str | None
    small: Settings
    """The client's own options where a transaction fits into a batch per partition."""
    large: Settings
    uvloop: bool = False
    ours: bool = False

    def settings(self, load: Load) -> Settings:
        """Those for ``load``."""
        return self.small if load.spread else self.large


_SMALL: Final[Settings] = {}
_LARGE: Final[Settings] = {"batch_size": 1_000_000}  # 131,072: 30 % fewer records/s

CLIENTS: Final = {
    client.name: client
    for client in (
        Client("aioproducer", "AioproducerDriver", _SMALL, _LARGE, uvloop=True, ours=True),
        Client("aioproducer-asyncio", "AioproducerDriver", _SMALL, _LARGE, ours=True),
        Client(
            "confluent",
            "ConfluentDriver",
            small={"linger.ms": 0},
            large={
                "linger.ms": 5,  # batch.size is 1,000,000 by default
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 2_097_151,
            },
        ),
        Client(
            "java",
            None,
            small={"linger.ms": 0},
            large={"linger.ms": 5, "batch.size": 1_000_000},
        ),
    )
}
