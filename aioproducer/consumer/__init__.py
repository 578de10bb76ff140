"""A member of a consumer group, in an event loop.

Provisional: names and behaviour may change in any version. The classic protocol alone is spoken, a
subscription is a list of topics, and partitions that are added to a topic are found with the next
rebalance.
"""

from aioproducer.consumer.consumer import Consumer

__all__ = ["Consumer"]
