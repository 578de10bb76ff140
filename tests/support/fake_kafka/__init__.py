"""Kafka as a test scripts it: brokers on this event loop that can do what they should not.

:class:`FakeKafka` answers as the simulation's model of Kafka does, unless an :class:`Answer` tells
it otherwise.
"""

from __future__ import annotations

from tests.support.fake_kafka.brokers import FakeKafka, Received
from tests.support.fake_kafka.script import Answer

__all__ = ["Answer", "FakeKafka", "Received"]
