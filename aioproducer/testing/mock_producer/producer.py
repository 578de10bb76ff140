"""The mock producers: the real producer and the blocking one, each with a history.

Their options are the real ones, with a few that the mock decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeVar, Unpack

from aioproducer import sync
from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.config.producer_config import configuration
from aioproducer.engine.client.environment import current_environment, use_environment
from aioproducer.errors import IllegalStateError, ProducerError, WrongLoopError
from aioproducer.model import (
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.producer import Producer
from aioproducer.testing.mock_producer.cluster import InMemoryCluster, SentRecord
from aioproducer.testing.mock_producer.network import (
    InMemoryNetwork,
    Journal,
    JournaledInterceptors,
)

_DECIDED: Final[dict[str, Any]] = {
    "batch_size": 0,
    "linger_ms": 0,
    "client_dns_lookup": "use_all_dns_ips",
    "bootstrap_resolve_timeout_ms": 0,
}
"""A batch has one record, so each record has an answer of its own. No name is looked up."""
_BOOTSTRAP_SERVERS: Final = "mock:9092"
_PATIENCE: Final = {
    "max_block_ms": 1_000,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 10_000,
}
"""Shorter than a real producer's: a test that has forgotten an answer ends soon."""


def config_of(config: ProducerConfig | None, options: ProducerOptions) -> ProducerConfig:
    """The configuration of a mock producer. Raises :class:`ConfigError` as the real one does."""
    given: dict[str, Any] = {**options, **_DECIDED}
    if config is None:
        patience = {} if _PATIENCE.keys() & given.keys() else _PATIENCE
        given = {"bootstrap_servers": _BOOTSTRAP_SERVERS, **patience, **given}
    return configuration(config, given, "MockProducer")


_SEED: Final = 5


class MockProducer(Producer[Any, Any]):
    """An :class:`aioproducer.Producer` without a cluster, for tests of applications.

    ::

        async with MockProducer(partitions={"orders": 6}) as producer:
            await place_order(producer, "one espresso")
        assert producer.sent("orders")[0].value == b"one espresso"

    Methods, options, errors and transactions are those of the real producer. Only the network is
    replaced, by a cluster in memory. Records get the same partitions in every run.

    ``auto_complete``: every record is delivered automatically, in a later iteration of the event
    loop. False: a record has no outcome until :meth:`complete_next` or :meth:`fail_next`;
    :meth:`flush`, :meth:`close` and the end of a transaction wait for these as they would wait for
    brokers. ``partitions``: the number of partitions of every topic, and topics are created on
    first use; or a mapping of existing topics to their numbers.

    ``batch_size`` and ``linger_ms`` have no effect, because every record is a batch. By default a
    record waits up to 1 second for its topic (``max_block_ms``), and up to 10 seconds for its
    response (``delivery_timeout_ms``). ``transaction``: a handle from any producer; the records
    only go to this producer's history.

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
        config = hidden_mapping(config)
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

        Records of a transaction are included after its commit. The list is a copy.
        """
        return self._cluster.history

    def sent(self, topic: str) -> list[SentRecord]:
        """Return the records of :attr:`history` in one topic."""
        return [record for record in self._cluster.history if record.topic == topic]

    @property
    def pending_records(self) -> list[ProducerRecord[Any, Any]]:
        """The records without an outcome, as passed to ``send()``."""
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
        """The number of committed transactions, without empty ones."""
        return self._cluster.coordinator.commit_count

    def clear(self) -> None:
        """Clear the history, and the errors that :meth:`fail_next` has stored for later records.

        This keeps records without an outcome, the open transaction, topics and offsets.
        """
        self._cluster.forget_records()
        self._cluster.coordinator.offsets_history.clear()
        self._journal.forget_errors()

    # --- what becomes of it ----------------------------------------------------------------

    def complete_next(self) -> bool:
        """Deliver the oldest record without an outcome. Returns False if there is none.

        Its future gets the result in a later iteration of the event loop.

        Raises:
            IllegalStateError: the producer was not started.
            WrongLoopError: the call is in another event loop or thread.
        """
        self._check_loop()
        return self._journal.decide(None)

    def fail_next(self, error: ProducerError) -> bool:
        """Fail the oldest record without an outcome with ``error``. Returns False if there is none.

        No error is retried, not even a retriable one. With ``auto_complete``, if there is no such
        record, the next record sent fails. Several calls apply to several records, in order.

        Raises:
            TypeError: ``error`` is not a :class:`~aioproducer.errors.ProducerError`.
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
        """Fence this producer, as if another one with the same ``transactional_id`` had started.

        The open transaction is aborted. The producer notices this with its next request, and raises
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


_Answer = TypeVar("_Answer")


class SyncMockProducer(sync.Producer[Any, Any]):
    """An :class:`aioproducer.sync.Producer` without a cluster, for tests of blocking applications.

    ::

        with SyncMockProducer(partitions={"orders": 6}) as producer:
            place_order(producer, "one espresso")
        assert producer.sent("orders")[0].value == b"one espresso"

    Arguments and additional methods are those of :class:`MockProducer`. Any thread can call them.
    With ``auto_complete=False``, a call that waits for records needs another thread that completes
    them.
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
        config = hidden_mapping(config)

        def make(*arguments: Any, **others: Any) -> MockProducer:
            self._mock = MockProducer(
                *arguments, auto_complete=auto_complete, partitions=partitions, **others
            )
            return self._mock

        self._make_producer = make
        given: dict[str, Any] = {**options}
        super().__init__(config, transaction=transaction, **given)

    @property
    def history(self) -> list[SentRecord]:
        """See :attr:`MockProducer.history`."""
        return self._mock.history

    def sent(self, topic: str) -> list[SentRecord]:
        """See :meth:`MockProducer.sent`."""
        return self._mock.sent(topic)

    @property
    def pending_records(self) -> list[ProducerRecord[Any, Any]]:
        """See :attr:`MockProducer.pending_records`."""
        return self._in_loop(lambda: self._mock.pending_records)

    @property
    def uncommitted_records(self) -> list[SentRecord]:
        """See :attr:`MockProducer.uncommitted_records`."""
        return self._in_loop(lambda: self._mock.uncommitted_records)

    @property
    def uncommitted_offsets(self) -> Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]:
        """See :attr:`MockProducer.uncommitted_offsets`."""
        return self._mock.uncommitted_offsets

    @property
    def offsets_history(self) -> Sequence[Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]]:
        """See :attr:`MockProducer.offsets_history`."""
        return self._mock.offsets_history

    @property
    def commit_count(self) -> int:
        """See :attr:`MockProducer.commit_count`."""
        return self._mock.commit_count

    def clear(self) -> None:
        """See :meth:`MockProducer.clear`."""
        self._mock.clear()

    def complete_next(self) -> bool:
        """See :meth:`MockProducer.complete_next`; any thread may call it."""
        return self._in_loop(self._mock.complete_next)

    def fail_next(self, error: ProducerError) -> bool:
        """See :meth:`MockProducer.fail_next`; any thread may call it."""
        return self._in_loop(partial(self._mock.fail_next, error))

    def fence(self) -> None:
        """See :meth:`MockProducer.fence`; any thread may call it."""
        self._in_loop(self._mock.fence)

    def _in_loop(self, call: Callable[[], _Answer]) -> _Answer:
        """The result of ``call`` in the producer's thread, after all records sent before."""

        async def caught_up() -> _Answer:
            await self._thread.catch_up()
            return call()

        return self._thread.ask(caught_up)
