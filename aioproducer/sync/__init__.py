"""The blocking shell: the same producer, on an event loop in a thread of its own.

``send()`` puts a record into the :class:`Inbox`; one coroutine, the *pump*, takes the inbox whole
and puts its records into their batches. So the loop is woken once for a burst of records. A thread
whose records have to wait for their broker stalls alone.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    suppress,
)
from functools import partial
from threading import Thread, current_thread, get_ident
from time import time_ns
from typing import Any, Final, Self, TypeVar, Unpack

from aioproducer import errors, producer
from aioproducer.bulk.send_report import BulkResult, OneRecord, SendReport, carry, note
from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.core.arguments import check_timeout, one_by_one, only_argument
from aioproducer.core.check import ClusterCheck
from aioproducer.metrics import MetricsSnapshot
from aioproducer.model import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    PartitionInfo,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.records.arrow import is_arrow
from aioproducer.serialization import shared_headers
from aioproducer.sync.inbox import Inbox, Item, Marker

_Answer = TypeVar("_Answer")

_BOOKKEEPING: Final = 512  # bytes that a record in the inbox counts for beside its value
_RECORDS_PER_TURN: Final = 500  # records after which the loop may do something else
_AT_EXIT: Final = 10.0  # seconds to deliver, at the interpreter's exit, for who was not closed
_GRACE: Final = 5.0  # seconds over its bound after which close() no longer believes in the thread


class Producer:
    """Sends records to Kafka from code without an event loop; any thread may use it.

    Options, arguments and errors are those of :class:`aioproducer.Producer`. Serializers,
    partitioners, interceptors and the callbacks of futures run in the producer's own thread: they
    must not block, and whatever waits raises :class:`IllegalStateError` there. Records on their way
    to that thread take up to a sixteenth of ``buffer_memory`` beside it.

    Close it. The interpreter's exit closes what nobody closed, within 10 s each, but ``os._exit``
    and signals do not. A forked child makes its own.
    """

    def __init__(
        self,
        config: ProducerConfig | None = None,
        /,
        *,
        transaction: TransactionHandle | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        hide_secrets(options)
        config = hidden_mapping(config)
        self._core = producer.Producer(config, transaction=transaction, **options)
        self.config = self._core.config
        self.client_id = self._core.client_id
        self._process = os.getpid()
        self._thread = Thread(target=self._run, name=f"aioproducer-{self.client_id}", daemon=True)
        self._ended: Future[int] = Future()
        self._wakeup = asyncio.Event()
        self._burst: deque[Item | Marker] = deque()
        """The items that the pump has taken out of the inbox."""
        self._inbox = Inbox(self.config.buffer_memory // 32)
        """A thread that finds it empty wakes the pump."""
        self._lock = self._inbox.lock
        """Guards what follows, too."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = False
        self._refusal: errors.ProducerError = errors.IllegalStateError(
            f"the producer {self.client_id!r} was not started: use `with Producer(...)`"
        )

    def start(self) -> None:
        """Start the producer's thread. Raises :class:`IllegalStateError` if it was before."""
        with self._lock:
            if self._thread.ident or isinstance(self._refusal, errors.ProducerClosedError):
                raise errors.IllegalStateError(f"{self._core!r} can be started once; make another")
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread.start()
        atexit.register(self._close_at_exit)
        self._ask(self._catch_up)
        self._open = True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, timeout: float | None = None) -> int:
        """Close: see :meth:`aioproducer.Producer.close`. Ctrl-C gives up what is left at once."""
        check_timeout(timeout)
        bound = self.config.delivery_timeout_ms / 1000 if timeout is None else timeout
        self._check(waits=True)
        with self._lock:
            if not self._ended.done():
                self._refusal = errors.ProducerClosedError(
                    f"the producer {self.client_id!r} is closed; make a new Producer"
                )
            self._open = False
        self._inbox.close()
        if not self._thread.ident:
            self._core.close_hooks()
            return 0
        if not self._ended.done():
            with suppress(errors.ProducerClosedError, errors.ProducerBrokenError):
                self._ask(lambda: self._close(bound), bound + _GRACE)
        self._thread.join(_GRACE)
        return self._ended.result(0)

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """Put a record into memory to be sent; the future has its fate.

        Blocks for up to ``max_block_ms`` while memory is used up. Records of one thread keep their
        order. ``future.cancel()`` is True where the record is taken back, and False once the
        producer's thread has it. What is wrong with the record is found there, so that is in the
        future too; only what follows is raised here.

        Raises:
            SerializationError: a :class:`ProducerRecord` is not the only argument.
            BufferExhaustedError: no memory within ``max_block_ms``; in a callback, no memory now.
            ProducerClosedError, ProducerBrokenError, IllegalStateError, WrongLoopError: not now,
                not in this process, or not any more.
        """
        future = _RecordFuture()
        if isinstance(topic, ProducerRecord):
            topic, value, key, partition, headers, timestamp_ms = only_argument(
                topic, value, key, partition, headers, timestamp_ms
            )
        record = (topic, value, key, partition, headers, timestamp_ms)
        self._enter(record, future, self.config.max_block_ms / 1000)
        return future

    def send_many(
        self,
        topic: str,
        values: Any,
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> SendReport:
        """Send as :meth:`aioproducer.Producer.send_many` does, but not from an async iterable.

        Ctrl-C cancels it.
        """

        async def begin() -> tuple[BulkResult, AbstractContextManager[None]]:
            under_way = self._core.bulk()
            under_way.__enter__()
            return BulkResult(asyncio.get_running_loop().create_future()), under_way

        async def finish() -> SendReport:
            await self._catch_up()
            return await tally.finish()

        async def end() -> None:
            await self._catch_up()
            await tally.end(0)

        def take_back() -> None:
            self._core.take_back_cancelled()
            tally.listen()

        if is_arrow(values):
            return self._send_columns(topic, values, partition, headers)
        values = one_by_one(values, "an iterable")
        if headers is not None:
            headers = shared_headers(headers, topic)
        tally, under_way = self._ask(begin)
        try:
            for value in values:
                record: tuple[Any, ...] = (topic, value, None, partition, headers, None)
                if isinstance(value, ProducerRecord):
                    record = value.fields()
                self._enter(record, _BulkRecord(tally))
            return self._ask(finish)
        except KeyboardInterrupt as error:
            carry(error, tally)
            tally.cancel()
            with self._lock:
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(take_back)
            raise
        except Exception as error:  # the producer's end, or what the values raised
            carry(error, tally)
            with suppress(errors.ProducerError):  # closed: all have their fate by then
                self._ask(end)
            note(error)
            raise
        finally:
            with self._lock:
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(under_way.__exit__, None, None, None)

    def _send_columns(
        self, topic: str, values: Any, partition: int | None, headers: Headers | None
    ) -> SendReport:
        raised: list[BaseException] = []

        async def send() -> SendReport:
            await self._catch_up()
            try:
                return await self._core.send_many(
                    topic, values, partition=partition, headers=headers
                )
            except BaseException as error:
                raised.append(error)
                raise

        try:
            return self._ask(send)
        except (errors.ProducerError, KeyboardInterrupt) as error:
            if self._ended.done():
                self._thread.join(_GRACE)  # then it has raised, too
            report = SendReport.of(raised[0]) if raised else None
            if report is not None and SendReport.of(error) is None:
                carry(error, report)
                note(error)
            raise

    def flush(self, timeout: float | None = None) -> None:
        """Wait for all records: see :meth:`aioproducer.Producer.flush`."""
        check_timeout(timeout)

        async def flush() -> None:
            await self._catch_up()
            await self._core.flush()

        self._ask(flush, timeout)

    def partitions_for(self, topic: str) -> tuple[int, ...]:
        """The partitions of ``topic``: see :meth:`aioproducer.Producer.partitions_for`."""
        return self._ask(lambda: self._core.partitions_for(topic))

    def partition_infos_for(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Partitions and their brokers: see :meth:`aioproducer.Producer.partition_infos_for`."""
        return self._ask(lambda: self._core.partition_infos_for(topic))

    def check(
        self,
        timeout: float | None = None,
        *,
        topics: Iterable[str] = (),
        transactional_id: str | None = None,
    ) -> ClusterCheck:
        """Check the cluster and ``topics``: see :meth:`aioproducer.Producer.check`."""
        return self._ask(
            lambda: self._core.check(timeout, topics=topics, transactional_id=transactional_id)
        )

    # --- transactions ----------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, shared: bool = False) -> Iterator[None]:
        """A ``with`` block in a transaction: see :meth:`aioproducer.Producer.transaction`."""

        async def enter() -> AbstractAsyncContextManager[None]:
            await self._catch_up()
            block = self._core.transaction(shared=shared)
            await block.__aenter__()
            return block

        async def leave(error: BaseException | None) -> None:
            await self._catch_up()
            await block.__aexit__(type(error) if error else None, error, None)

        block = self._ask(enter)
        try:
            yield
        except BaseException as raised:
            error = raised
            self._ask(lambda: leave(error))
            raise
        self._ask(lambda: leave(None))

    def init_transactions(self, timeout: float | None = None) -> None:
        """Initialize transactions: see :meth:`aioproducer.Producer.init_transactions`."""
        self._ask(lambda: self._core.init_transactions(timeout))

    def begin_transaction(self, *, shared: bool = False) -> None:
        """Begin a transaction: see :meth:`aioproducer.Producer.begin_transaction`."""
        self._after_all_sent(lambda: self._core.begin_transaction(shared=shared))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Commit the transaction: see :meth:`aioproducer.Producer.commit_transaction`."""
        self._after_all_sent(lambda: self._core.commit_transaction(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: see :meth:`aioproducer.Producer.abort_transaction`."""
        self._after_all_sent(lambda: self._core.abort_transaction(timeout))

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[Any, OffsetAndMetadata | int] | Iterable[Any],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Send consumed offsets: see :meth:`aioproducer.Producer.send_offsets_to_transaction`."""
        self._ask(lambda: self._core.send_offsets_to_transaction(offsets, group, timeout))

    def committed_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of a group: see :meth:`aioproducer.Producer.committed_offsets`."""
        return self._ask(lambda: self._core.committed_offsets(group_id, partitions, timeout))

    def transaction_handle(self, *, hand_over: bool = False) -> TransactionHandle:
        """The handle of the transaction: see :meth:`aioproducer.Producer.transaction_handle`."""

        async def handle() -> TransactionHandle:
            return self._core.transaction_handle(hand_over=hand_over)

        return self._ask(handle)

    def _after_all_sent(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def caught_up() -> None:
            await self._catch_up()
            await call()

        self._ask(caught_up)

    def metrics(self) -> MetricsSnapshot:
        """The metrics of the producer: see :meth:`aioproducer.Producer.metrics`."""

        async def metrics() -> MetricsSnapshot:
            return self._core.metrics()

        return self._core.metrics() if self._loop is None else self._ask(metrics)

    # --- between the threads ---------------------------------------------------------------

    def _enter(self, record: tuple[Any, ...], future: Any, timeout: float | None = None) -> None:
        """Put a record into the inbox, waiting for room there."""
        topic, value, key, partition, headers, timestamp_ms = record
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        size = _BOOKKEEPING + (len(value) if isinstance(value, bytes | bytearray | str) else 0)
        self._check(waits=False)
        thread, inbox = current_thread(), self._inbox
        with self._lock:
            if not inbox.fits(thread, size):
                patience = 0 if thread is self._thread else timeout
                if not inbox.wait(thread, size, patience):
                    refused = errors.BufferExhaustedError(
                        f"no memory became free within {patience} s (max_block_ms; a callback does "
                        "not wait): send more slowly, or raise buffer_memory"
                    )
                    if self._loop is not None:
                        self._loop.call_soon_threadsafe(self._core.record_failed, refused)
                    raise refused
            if not self._open or self._loop is None:
                raise errors.anew(self._refusal)
            fields = (topic, value, key, partition, headers, timestamp_ms)
            if inbox.put(Item(fields, future, thread, size)):
                self._loop.call_soon_threadsafe(self._wakeup.set)

    def _ask(
        self, question: Callable[[], Coroutine[Any, Any, _Answer]], timeout: float | None = None
    ) -> _Answer:
        """The result of ``question`` in the loop. Raises an error if the thread ends."""
        self._check(waits=True)
        with self._lock:
            if self._loop is None:
                raise errors.anew(self._refusal)
            answer = asyncio.run_coroutine_threadsafe(question(), self._loop)
        either: list[Future[Any]] = [answer, self._ended]
        try:
            wait(either, timeout, FIRST_COMPLETED)
        finally:
            if not self._ended.done():
                answer.cancel()
        if answer.done() and not answer.cancelled():
            return answer.result()
        if self._ended.done():
            raise errors.anew(self._refusal)
        raise errors.ProducerTimeoutError(f"{self.client_id!r} was not done within {timeout} s")

    def _check(self, *, waits: bool) -> None:
        if os.getpid() != self._process:
            raise errors.WrongLoopError(f"{self._core!r} was made before a fork; make another")
        if waits and get_ident() == self._thread.ident:
            raise errors.IllegalStateError("callbacks and hooks may only send(), and not wait")

    def _close_at_exit(self) -> None:
        if os.getpid() == self._process:
            self.close(_AT_EXIT)

    # --- in the producer's own thread ------------------------------------------------------

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(self._pump())
            except BaseException as cause:
                error = errors.ProducerBrokenError(f"{self._thread} ended: {cause!r}")
                error.__cause__ = cause
                self._end(error, 0)

    async def _pump(self) -> None:
        """Move records into batches, in order, until the producer is closed or broken."""
        try:
            await self._core.start()
            while True:
                self._core.check_usable()
                for _ in range(min(len(self._burst), _RECORDS_PER_TURN)):
                    self._pass_on(self._burst.popleft())
                if self._burst:
                    await asyncio.sleep(0)
                    continue
                await self._wakeup.wait()
                self._wakeup.clear()
                self._burst = self._inbox.take()
        except errors.ProducerError as error:
            self._end(error, await self._core.close())

    def _pass_on(self, item: Item | Marker) -> None:
        if not self._inbox.keep(item) and (turn := self._put(item)) is not None:
            assert isinstance(item, Item)
            self._inbox.stall(item.thread)
            turn.add_done_callback(partial(self._resume, item.thread))

    def _resume(self, thread: Thread, turn: asyncio.Future[None]) -> None:
        """Go on with the records of ``thread``: there is room again, or the producer has ended."""
        if turn.cancelled() or turn.exception() is not None:
            self._wakeup.set()
            return
        for item in self._inbox.resume(thread):
            if (again := self._put(item)) is not None:
                again.add_done_callback(partial(self._resume, thread))
                return

    def _put(self, item: Item | Marker) -> asyncio.Future[None] | None:
        """Put a record into its batch, or in line; returns a future if its thread has to wait."""
        if isinstance(item, Marker):
            item.reached()
        elif item.future.set_running_or_notify_cancel():
            try:
                topic, value, key, partition, headers, timestamp_ms = item.record
                self._core.put(
                    topic,
                    value,
                    key,
                    partition,
                    headers,
                    timestamp_ms,
                    item.future,
                    over_capacity=True,
                    caller=item.thread,
                )
            except Exception as error:
                item.future.set_exception(error)
                self._core.record_failed(error)
            else:
                with suppress(errors.ProducerError):  # it has ended, as the pump will find out
                    return self._core.turn(item.thread)
        return None

    async def _catch_up(self) -> None:
        """Wait until the pump has all that was sent before."""
        future: Future[None] = Future()
        with self._lock:
            self._inbox.put(Marker(future))
        self._wakeup.set()
        await asyncio.wrap_future(future)

    async def _close(self, timeout: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._catch_up()
                    await self._core.close(timeout)
        finally:
            await self._core.close(0)
            self._wakeup.set()

    def _end(self, error: errors.ProducerError, undelivered: int) -> None:
        """End with ``error``, which all later calls get, and all that wait."""
        with self._lock:
            closing = isinstance(self._refusal, errors.ProducerClosedError)
            self._refusal = error = self._refusal if closing else error
            self._loop, self._open = None, False
        self._inbox.close()
        for item in (*self._burst, *self._inbox.take_rest()):
            if isinstance(item, Marker):
                item.fail(error)
            elif item.future.set_running_or_notify_cancel():
                undelivered += closing
                item.future.set_exception(_undelivered(item.record[0]) if closing else error)
        self._burst.clear()
        atexit.unregister(self._close_at_exit)
        self._ended.set_result(undelivered)


def _undelivered(topic: object) -> errors.ProducerClosedError:
    return errors.ProducerClosedError(
        f"{topic!s:.249}: the producer was closed before this record was in a batch; give close() "
        "more time, or flush() first"
    )


class _RecordFuture(Future[RecordMetadata]):
    """The fate of one record; a failure may be that of its whole batch, as one object."""

    def result(self, timeout: float | None = None) -> RecordMetadata:
        error = self.exception(timeout)
        if isinstance(error, errors.ProducerError):
            raise errors.anew(error)
        return super().result(0)


class _BulkRecord(OneRecord):
    """A stand-in for a future in the inbox: the record is counted once it leaves there."""

    def __init__(self, tally: BulkResult) -> None:
        super().__init__(tally, -1)

    def set_running_or_notify_cancel(self) -> bool:
        if not self.cancelled():
            self._index = self._result.add()
        return not self.cancelled()
