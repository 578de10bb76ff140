"""Subscribers of FastStream that publish and acknowledge in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from faststream.kafka.publisher.producer import AioKafkaFastProducerImpl
from faststream.kafka.subscriber.usecase import LogicSubscriber
from faststream.middlewares import AckPolicy

from aioproducer.compat.faststream.broker import FastProducer
from aioproducer.compat.faststream.consumer import TransactionalConsumer, TransactionalIds
from aioproducer.errors import ConfigError, IllegalStateError

Subscriber = TypeVar("Subscriber", bound=LogicSubscriber[Any])


def exactly_once(subscriber: Subscriber, *, transactional_id: str) -> Subscriber:
    """Let ``subscriber`` write what its handler publishes and its offset in one transaction.

    ::

        @exactly_once(
            broker.subscriber(
                "orders", group_id="billing", ack_policy=AckPolicy.NACK_ON_ERROR
            ),
            transactional_id="billing-1",
        )
        @broker.publisher("invoices")
        async def bill(order: dict) -> dict: ...

    A handler that returns commits the transaction. An exception aborts it, and the message comes
    again. The members of the group are aioproducer's Consumers; with ``max_workers`` each of them
    has a transactional id of its own, with a number at the end. Provisional, as the Consumer.
    Returns ``subscriber``.

    ``transactional_id``: names this subscriber in this process, and is the same after a restart.
    Another process needs another one.

    Raises:
        ConfigError: the subscriber has no group, has assigned partitions, or another
            acknowledgement policy than ``NACK_ON_ERROR``; or the id is not a text.
    """
    if not isinstance(transactional_id, str) or not transactional_id.strip():
        raise ConfigError("transactional_id is a text that is not empty")
    if not subscriber.group_id:
        raise ConfigError("exactly_once() needs a subscriber with a group_id, which keeps offsets")
    if subscriber._partitions:
        raise ConfigError("exactly_once() needs topics or a pattern, not partitions")
    if subscriber.ack_policy is not AckPolicy.NACK_ON_ERROR:
        raise ConfigError(
            "exactly_once() needs a subscriber with ack_policy=AckPolicy.NACK_ON_ERROR, not "
            f"{subscriber.ack_policy}: the transaction ends after the handler"
        )
    kind = type(subscriber)
    if not issubclass(kind, _ExactlyOnce):
        changed = cast("Any", subscriber)
        namespace = {"__slots__": (), "__module__": kind.__module__}
        changed.__class__ = type(kind.__name__, (_ExactlyOnce, kind), namespace)
        changed.transactional_ids = TransactionalIds(transactional_id)
    return subscriber


class _ExactlyOnce:
    """A subscriber's class with another one below it."""

    __slots__ = ()

    _outer_config: Any
    transactional_ids: TransactionalIds

    @property
    def builder(self) -> Callable[..., Any]:
        """The factory of consumers; FastStream's test client has its own."""
        producer = self._outer_config.producer
        if isinstance(producer, FastProducer):
            rack = self._outer_config.client_rack
            given = {} if rack is None else {"client_rack": rack}
            return partial(TransactionalConsumer, producer, self.transactional_ids, **given)
        if isinstance(producer, AioKafkaFastProducerImpl):
            raise IllegalStateError(
                "exactly_once() needs a broker that publishes with aioproducer: "
                "use_aioproducer(broker)"
            )
        return cast("Callable[..., Any]", self._outer_config.builder)
