"""What is sent, by whom, and the most that the protocol and the memory allow. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from benchmarks.clients import Settings
from benchmarks.workloads import Workload

BROKERS: Final = 3
IN_FLIGHT: Final = 5
"""Requests to a broker: the default of ``max_in_flight_requests_per_connection``."""
REQUEST_BYTES: Final = 1_048_576
"""The default of ``max_request_size``."""
BUFFER_MEMORY: Final = 33_554_432
"""The default of ``buffer_memory``."""
RECORD_OVERHEAD: Final = 9
"""Bytes that a record takes on the wire beside its value of 100 to 1,000 bytes, without a key:
length, attributes, timestamp, offset, key length, value length, headers count."""


@dataclass(frozen=True, slots=True)
class Case:
    """Values of one size to one topic, as fast as the client's flow control lets the sender."""

    partitions: int
    value_bytes: int
    rtt_ms: int
    """By how much the brokers delay each answer."""
    keyed: bool = False
    distance_ms: int = 0
    """The round-trip time of the way to the brokers."""

    @property
    def name(self) -> str:
        """In the results."""
        keys = "-keyed" if self.keyed else ""
        distant = f"-distant-{self.distance_ms}" if self.distance_ms else ""
        return f"slow-{self.partitions}-{self.value_bytes}-{self.rtt_ms}{distant}{keys}"

    @property
    def topic(self) -> str:
        """The topic of the records."""
        [topic] = self.workload().topic_names()
        return topic

    def workload(self) -> Workload:
        """The topic for the brokers."""
        return Workload(
            self.name,
            self.meaning,
            records=0,
            value_bytes=self.value_bytes,
            partitions=self.partitions,
            rtt_ms=self.rtt_ms,
        )

    @property
    def meaning(self) -> str:
        """In a few words."""
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        keys = ", keys of 4 bytes" if self.keyed else ""
        late = f", {self.rtt_ms} ms" if self.rtt_ms else ""
        distant = f", {self.distance_ms} ms away" if self.distance_ms else ""
        return (
            f"{self.value_bytes:,} bytes to {partitions} on {BROKERS} brokers{distant}{keys}{late}"
        )

    def bound(self) -> float | None:
        """Records/s of the protocol with all defaults of ours: full requests, always in flight.

        None: without a delay, the machine is the limit.
        """
        delay_ms = self.rtt_ms + self.distance_ms
        if not delay_ms:
            return None
        brokers = min(self.partitions, BROKERS)
        in_flight = min(brokers * IN_FLIGHT * REQUEST_BYTES, BUFFER_MEMORY)
        size = self.value_bytes + RECORD_OVERHEAD + 4 * self.keyed
        return in_flight / size / (delay_ms / 1_000)


@dataclass(frozen=True, slots=True)
class Client:
    """A way to send; its driver is the class ``driver`` of ``client.py``."""

    name: str
    driver: str
    settings: Settings = field(default_factory=dict)
    """Options beside the brokers."""
    uvloop: bool = False
    beats: bool = False
    """Whether a task is due every millisecond, which costs CPU time."""
    frozen: bool = False
    """Whether ``gc.freeze()`` is called after the start, as the documentation says."""


CLIENTS: Final = {
    client.name: client
    for client in (
        Client("aioproducer", "Ours", uvloop=True),
        Client("aioproducer-beats", "Ours", uvloop=True, beats=True),
        Client("aioproducer-frozen-beats", "Ours", uvloop=True, beats=True, frozen=True),
        Client("aioproducer-asyncio-beats", "Ours", beats=True),
        Client(
            "aioproducer-kafka-buffers",
            "Ours",
            {"send_buffer_bytes": 131_072, "receive_buffer_bytes": 32_768},
            uvloop=True,
        ),
        Client("aioproducer-4-mib-buffers", "Ours", {"send_buffer_bytes": 4_194_304}, uvloop=True),
        Client("confluent", "Confluent", {"acks": "all"}),
        Client("confluent-idempotent", "Confluent", {"enable.idempotence": True}),
        Client(
            "confluent-32-mib",
            "Confluent",
            {"enable.idempotence": True, "queue.buffering.max.kbytes": 32_768},
        ),
    )
}
"""All with ``acks=all``, and otherwise their defaults but for the options here."""
