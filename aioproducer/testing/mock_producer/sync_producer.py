"""The blocking mock producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

from aioproducer import sync
from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.errors import ProducerError
from aioproducer.model import (
    OffsetAndMetadata,
    ProducerRecord,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.testing.mock_producer.producer import MockProducer
from aioproducer.testing.sent_record import SentRecord

_Answer = TypeVar("_Answer")


class SyncMockProducer(sync.Producer[Any, Any]):
    """A :class:`aioproducer.sync.Producer` without a cluster, for tests of blocking applications.

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
