"""A dead letter topic: the hook that sends failed records to another topic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Unpack

from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.config.failure_hook import FailureHookOption
from aioproducer.config.producer_config import configuration
from aioproducer.engine.client.arguments import checked_topic
from aioproducer.engine.core.producer_core import load_for
from aioproducer.engine.failures import FailedRecordHandler, handler_of, hurry_up
from aioproducer.errors import ConfigError, ProducerError, ProducerTimeoutError
from aioproducer.failed_records.dead_letter import (
    DeadLetter,
    Uncertain,
    check_uncertain,
    hand_on,
    is_dead_letter,
    to_keep,
)
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.model import FailedRecord
from aioproducer.producer import Producer

_UNLIKE: Final[Mapping[str, Any]] = {
    "acks": "all",
    "interceptor_classes": (),
    "key_serializer": None,
    "on_failed": None,
    "partitioner": None,
    "transactional_id": None,
    "value_serializer": None,
}
"""The options that the producer of dead letters does not take from the producer that it serves."""


class DeadLetterTopic:
    """Sends failed records to ``topic``. Pass it as ``on_failed``.

    ::

        Producer(bootstrap_servers=..., on_failed=DeadLetterTopic("orders.failed"))

    A dead letter has the record's key, value, timestamp and headers, and additional headers that
    begin with ``__aioproducer.errors.``: ``topic``, ``partition``, ``timestamp``,
    ``exception.class.name``, ``exception.message`` and ``may.have.been.written``. A record that
    can't be sent there goes to ``fallback``. So does a record that is not acknowledged shortly
    before the end of ``close()``; it can then be in both places. A dead letter whose delivery fails
    does not become another dead letter.

    Args:
        topic: the topic. It must exist, or the brokers must create topics automatically.
        producer: a started :class:`aioproducer.Producer` without serializers, on the same event
            loop; you close it. None: at its first failed record, a producer creates a second one,
            with the same options and ``options`` on top.
        uncertain: ``keep`` the records that may be in their topic, or ``skip`` them.
        fallback: the hook for records that can't be sent, such as a :class:`DeadLetterFile`. None:
            a log line reports their number.
        options: options of the second producer. With ``bootstrap_servers`` it connects to another
            cluster, and takes no options from the first producer.

    Raises:
        ConfigError: an option is wrong, or both ``producer`` and options are given.
        InvalidTopicError: brokers do not accept this topic name.
    """

    def __init__(
        self,
        topic: str,
        producer: Producer[Any, Any] | None = None,
        *,
        uncertain: Uncertain = "keep",
        fallback: FailureHookOption | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        if producer is not None and options:
            raise ConfigError(
                f"DeadLetterTopic({topic!r}) has a producer, so {', '.join(sorted(options))} can "
                "change nothing: leave them out"
            )
        if "on_failed" in options:
            raise ConfigError("a DeadLetterTopic has no on_failed: use fallback=...")
        self.topic = checked_topic(topic)
        self._producer = producer
        self._uncertain = check_uncertain(uncertain)
        self._fallback = fallback
        self._options = options
        self._other_cluster = ProducerConfig(**options) if "bootstrap_servers" in options else None

    def __repr__(self) -> str:
        return f"DeadLetterTopic({getattr(self, 'topic', '…')!r})"  # …: an error of the options

    def handler_for(self, config: ProducerConfig) -> FailedRecordHandler:
        """The handler for a producer of ``config``."""
        own: ProducerConfig | None = None
        if self._producer is None:
            own = self._other_cluster or configuration(
                config, {**_UNLIKE, **self._options}, "DeadLetterTopic"
            )
            if own.client_id is not None and "client_id" not in self._options:
                own = own.replace(client_id=f"{own.client_id}-dead-letters")
            load_for(own)  # its start comes at the first failed record, when no import may
        fallback = None if self._fallback is None else handler_of(self._fallback, config)
        return _DeadLetterSender(self, own, self._producer, self._uncertain, fallback)


class _DeadLetterSender:
    """Sends the failed records of one producer; ``own``: by a producer of this configuration."""

    def __init__(
        self,
        target: DeadLetterTopic,
        own: ProducerConfig | None,
        producer: Producer[Any, Any] | None,
        uncertain: Uncertain,
        fallback: FailedRecordHandler | None,
    ) -> None:
        self._target = target
        self._own = own
        self._producer = producer
        self._uncertain = uncertain
        self._fallback = fallback
        self._end: float | None = None
        """The time by the event loop from which the fallback gets the records; None: no such."""
        self._bound: asyncio.Timeout | None = None
        """The bound of the last call that sent records."""

    def __repr__(self) -> str:
        return repr(self._target)

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        """Send ``records``, and wait for their outcomes; the fallback gets those that fail."""
        records = to_keep(records, self._uncertain)
        failed: dict[int, BaseException] = {}
        sent: dict[asyncio.Future[Any], int] = {}
        end = self._end
        if end is None or asyncio.get_running_loop().time() < end:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end) as self._bound:
                    await self._send_all(records, sent, failed)
        for future, index in sent.items():
            if future.done() and (outcome := _error_of(future)) is not None:
                failed[index] = outcome
        settled = {index for future, index in sent.items() if future.done()}
        for index in set(range(len(records))) - settled - failed.keys():
            failed[index] = ProducerTimeoutError("the producer ends before it was acknowledged")
        if failed:
            left = [records[index] for index in sorted(failed)]
            await hand_on(left, failed[min(failed)], self, self._fallback)

    async def _send_all(
        self,
        records: Sequence[FailedRecord],
        sent: dict[asyncio.Future[Any], int],
        failed: dict[int, BaseException],
    ) -> None:
        for index, record in enumerate(records):
            try:
                sent[await self._send(record)] = index
            except (ProducerError, TimeoutError) as error:
                failed[index] = error
        if sent:
            await asyncio.wait(sent)

    def hurry(self, timeout: float) -> None:
        """Give the second half of ``timeout`` seconds to the fallback, if there is one."""
        if self._fallback is None:
            return
        end = asyncio.get_running_loop().time() + timeout / 2
        self._end = end if self._end is None else min(self._end, end)
        if self._bound is not None and self._bound.when() != self._end:
            with suppress(RuntimeError):  # it has passed, or is over
                self._bound.reschedule(self._end)
        hurry_up(self._fallback, timeout)

    async def _send(self, record: FailedRecord) -> asyncio.Future[Any]:
        # A dead letter of another producer, or a record that was sent to the topic itself.
        if is_dead_letter(record) or (self._own is not None and record.topic == self._target.topic):
            raise ProducerError(
                f"a failed record of topic {record.topic!r} is a dead letter itself: {record.error}"
            )
        producer = await self._started()
        async with PatientTimeout(producer.config.max_block_ms / 1000):
            await producer.drain()
        letter = DeadLetter.of(record)
        return producer.send(
            self._target.topic,
            letter.value,
            key=letter.key,
            headers=letter.all_headers(),
            timestamp_ms=letter.timestamp_ms,
        )

    async def _started(self) -> Producer[Any, Any]:
        producer = self._producer
        if producer is None:
            assert self._own is not None
            producer = Producer(self._own)
            await producer.start()
            self._producer = producer
        return producer

    async def close(self) -> None:
        """Close the second producer, if there is one, and the fallback."""
        try:
            if self._own is not None and self._producer is not None:
                await self._producer.close()
        finally:
            if self._fallback is not None:
                await self._fallback.close()


def _error_of(future: asyncio.Future[Any]) -> BaseException | None:
    return asyncio.CancelledError() if future.cancelled() else future.exception()
