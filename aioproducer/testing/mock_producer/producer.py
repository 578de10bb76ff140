"""The mock producer that tests hold: the real producer, and its history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Unpack

from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.engine.client.environment import current_environment, use_environment
from aioproducer.errors import IllegalStateError, ProducerError, WrongLoopError
from aioproducer.model import (
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.producer import Producer
from aioproducer.testing.mock_producer.cluster import InMemoryCluster
from aioproducer.testing.mock_producer.journal import Journal, JournaledInterceptors
from aioproducer.testing.mock_producer.network import InMemoryNetwork
from aioproducer.testing.mock_producer.options import config_of
from aioproducer.testing.sent_record import SentRecord

_SEED: Final = 5


class MockProducer(Producer[Any, Any]):
    """A :class:`aioproducer.Producer` without a cluster, for tests of applications.

    ::

        async with MockProducer(partitions={"orders": 6}) as producer:
            await place_order(producer, "one espresso")
        assert producer.sent("orders")[0].value == b"one espresso"

    It is the real producer: its methods, options, errors and transactions are. The network alone is
    replaced, by a cluster in memory. Records of one run and the next get the same partitions.

    ``auto_complete``: each record is delivered by itself, in a later iteration of the event loop.
    False: a record has no outcome until :meth:`complete_next` or :meth:`fail_next`; so
    :meth:`flush`, :meth:`close` and the end of a transaction wait for these, as they wait for
    brokers. ``partitions``: the number of partitions of every topic, which exists once it is named;
    or a mapping of the topics that exist to their numbers.

    ``batch_size`` and ``linger_ms`` have no effect: each record is a batch. If neither a ``config``
    nor an option says so, a record waits for 1 second at most for its topic (``max_block_ms``), and
    for 10 seconds for its answer (``delivery_timeout_ms``).
    ``transaction``: a handle of any producer; the records go to this producer's history alone.

    Source: Kafka's ``MockProducer``.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        /,
        *,
        auto_complete: bool = True,
        partitions: int | Mapping[str, int] = 1,
        transaction: TransactionHandle | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        self._cluster = cluster = InMemoryCluster(partitions)
        self._journal = journal = Journal(auto_complete=auto_complete)
        self._loop: asyncio.AbstractEventLoop | None = None
        environment = current_environment()._replace(
            random=partial(Random, _SEED),
            network=self._make_network,
            interceptors=partial(JournaledInterceptors, journal),
        )
        with use_environment(environment):
            super().__init__(config_of(config, options), transaction=transaction)
        if transaction is not None:
            cluster.coordinator.join(transaction)

    def _make_network(self, *parts: Any) -> InMemoryNetwork:
        """The network of the producer, made as it starts."""
        self._loop = asyncio.get_running_loop()
        return InMemoryNetwork(self._cluster, self._journal, *parts)

    # --- what was sent ---------------------------------------------------------------------

    @property
    def history(self) -> list[SentRecord]:
        """The delivered records, in the order of their ``send()`` calls.

        A transaction's records come with its commit. The list is a copy.
        """
        return self._cluster.history

    def sent(self, topic: str) -> list[SentRecord]:
        """The records of :attr:`history` in one topic."""
        return [record for record in self._cluster.history if record.topic == topic]

    @property
    def pending_records(self) -> list[ProducerRecord[Any, Any]]:
        """The records without an outcome, as they were passed to ``send()``."""
        return self._journal.pending

    @property
    def uncommitted_records(self) -> list[SentRecord]:
        """The delivered records of the open transaction."""
        return [record for _, record in self._cluster.coordinator.open_records]

    @property
    def uncommitted_offsets(self) -> Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]:
        """The consumed offsets in the open transaction, by group."""
        open_ones = self._cluster.coordinator.open_offsets
        return {group: dict(offsets) for group, offsets in open_ones.items()}

    @property
    def offsets_history(self) -> Sequence[Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]]:
        """The consumed offsets of each committed transaction that had some, by group."""
        return list(self._cluster.coordinator.offsets_history)

    @property
    def commit_count(self) -> int:
        """The number of committed transactions; an empty transaction does not count."""
        return self._cluster.coordinator.commit_count

    def clear(self) -> None:
        """Forget the history, and the errors that :meth:`fail_next` keeps for later records.

        Records without an outcome, the open transaction, topics and offsets stay.
        """
        self._cluster.forget_records()
        self._cluster.coordinator.offsets_history.clear()
        self._journal.forget_errors()

    # --- what becomes of it ----------------------------------------------------------------

    def complete_next(self) -> bool:
        """Deliver the oldest record without an outcome; False: there is none.

        Its future gets the result in a later iteration of the event loop.

        Raises:
            IllegalStateError: the producer was not started.
            WrongLoopError: the call is in another event loop or thread.
        """
        self._check_loop()
        return self._journal.decide(None)

    def fail_next(self, error: ProducerError) -> bool:
        """Fail the oldest record without an outcome with ``error``; False: there is none.

        No error is retried, of whatever kind. With ``auto_complete`` and without such a record, the
        next record that is sent fails. Several calls are about several records, in their order.

        Raises:
            TypeError: ``error`` is no :class:`~aioproducer.errors.ProducerError`.
            IllegalStateError, WrongLoopError: see :meth:`complete_next`.
        """
        if not isinstance(error, ProducerError):
            raise TypeError(
                f"fail_next() takes an error of aioproducer.errors, not {error!r:.100}: a real "
                "producer's records fail with no other"
            )
        self._check_loop()
        return self._journal.arm(error)

    def fence(self) -> None:
        """Fence this producer, as another one with its ``transactional_id`` would by its start.

        The open transaction is aborted. The producer learns of it by its next request, and raises
        ProducerFencedError from then on.

        Raises:
            IllegalStateError: there is no ``transactional_id``, or the producer was not started.
            WrongLoopError: see :meth:`complete_next`.
        """
        self._check_loop()
        if self.config.transactional_id is None:
            raise IllegalStateError(f"the producer {self.client_id!r} has no transactional_id")
        self._cluster.coordinator.fence()

    def _check_loop(self) -> None:
        if self._loop is None:
            raise IllegalStateError(
                f"the producer {self.client_id!r} was not started: use `async with "
                "MockProducer(...)` or `await producer.start()`"
            )
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is not self._loop:
            raise WrongLoopError(
                f"the producer {self.client_id!r} belongs to the event loop it was started on: "
                "decide about its records there (loop.call_soon_threadsafe() leads there), or use "
                "SyncMockProducer"
            )
