"""Kafka as a test scripts it: brokers on this event loop that can do what they should not.

:class:`FakeKafka` answers as Kafka does, sequence numbers of idempotent producers included, unless
a :class:`ProduceAnswer` tells it otherwise.
"""

from __future__ import annotations

from tests.support.fake_kafka.brokers import FakeKafka, Received
from tests.support.fake_kafka.partition import Partition, Record
from tests.support.fake_kafka.produce_answer import ProduceAnswer

__all__ = ["FakeKafka", "Partition", "ProduceAnswer", "Received", "Record"]
