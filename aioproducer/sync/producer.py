"""The blocking producer: its public methods, its ``send_many()``, and the end of a record's trace.

``send_many()`` puts an iterator's values through the inbox, and sends all others in the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from aioproducer import errors, producer
from aioproducer.config import (
    ProducerConfig,
    ProducerOptions,
    UntypedOptions,
    hidden_mapping,
    hide_secrets,
)
from aioproducer.config.producer_config import ShownOptions
from aioproducer.engine.accumulator import cancelled_by_caller
from aioproducer.engine.bulk.send_report import BulkResult, OneRecord, SendReport, carry, note
from aioproducer.engine.client.elsewhere import elsewhere, in_other_producers
from aioproducer.engine.core.arguments import (
    NO_VALUE,
    check_timeout,
    given_record,
    one_by_one,
    refuse_pickle,
)
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.sending import RecordFields
from aioproducer.engine.core.tracing import TracedCall, Tracing, end, end_refused, in_context
from aioproducer.engine.metrics import Latencies, MetricsSnapshot
from aioproducer.engine.observer import RecordTrace
from aioproducer.engine.records.arrow import is_arrow
from aioproducer.errors import ProducerClosedError, ProducerError
from aioproducer.model import (
    Headers,
    ProducerRecord,
    RecordMetadata,
    TransactionHandle,
)
from aioproducer.model.type_parameters import MYPY, NO_SERIALIZER, K_contra, V_contra
from aioproducer.serialization.serializer import shared_headers
from aioproducer.sync.loop_thread import LoopThread

if TYPE_CHECKING:
    from aioproducer.engine.core.health import Health
    from aioproducer.model.type_parameters import (
        ConfigOf,
        SentKey,
        SentValue,
        SerializerOf,
        ValuesToSend,
    )


def end_by_future(trace: RecordTrace, fields: RecordFields, future: Future[RecordMetadata]) -> None:
    """Give ``trace`` the outcome of a record of the blocking shell, whose future is done."""
    if future.cancelled():
        end_refused(trace, fields, cancelled_by_caller(fields[0]))
    elif (error := future.exception()) is not None:
        end_refused(trace, fields, error)
    else:
        end(trace, future.result(), None)


def send_values(
    thread: LoopThread,
    core: ProducerCore,
    topic: str,
    values: Any,
    partition: int | None,
    headers: Headers | None,
) -> SendReport:
    """Put each value of an iterable into the inbox, and wait for all outcomes.

    The iterable runs in the caller's thread.
    """

    async def begin() -> BulkResult:
        under_way.enter_context(core.hold_commit())
        return BulkResult(asyncio.get_running_loop().create_future())

    async def finish() -> SendReport:
        await thread.catch_up()
        return await result.finish()

    async def end() -> None:
        await thread.catch_up()
        await result.end(0)

    def withdraw() -> None:
        core.withdraw_cancelled()
        result.listen()

    values = one_by_one(values, "an iterable")
    shared = None if headers is None else shared_headers(headers, topic)
    under_way = ExitStack()
    try:
        result = thread.ask(begin)
    except BaseException:  # an interrupt may come when it has begun
        thread.call_soon(under_way.close)
        raise
    call = TracedCall(core.tracing, topic, shared)
    error: BaseException | None = None
    try:
        for value in values:
            fields: RecordFields = (topic, value, None, partition, call.headers, None)
            if isinstance(value, ProducerRecord):
                fields = in_context(value.fields(), call.headers)
            thread.writer.enter(_BulkRecord(result), *fields, core.wall_clock_ns(), None)
        return thread.ask(finish)
    except KeyboardInterrupt as interrupt:
        error = interrupt
        carry(error, result)
        result.cancel()
        thread.call_soon(withdraw)
        raise
    except Exception as raised:  # the producer's end, or the error of the iterable
        error = raised
        carry(error, result)
        with suppress(errors.ProducerError):  # closed: all records have their outcome by then
            thread.ask(end)
        note(error)
        raise
    finally:
        thread.call_soon(under_way.close)
        call.ended(result.report(), error)


def send_together(
    thread: LoopThread, call: Callable[[], Coroutine[Any, Any, SendReport]]
) -> SendReport:
    """Run the asynchronous ``send_many()``, of values that are all there, on the loop."""
    raised: list[BaseException] = []

    async def send() -> SendReport:
        await thread.catch_up()
        try:
            return await call()
        except BaseException as error:
            raised.append(error)
            raise

    try:
        return thread.ask(send)
    except (errors.ProducerError, KeyboardInterrupt) as error:
        if thread.ended:
            thread.join()  # then the call has raised as well
        report = SendReport.of(raised[0]) if raised else None
        if report is not None and SendReport.of(error) is None:
            carry(error, report)
            note(error)
        raise


class _BulkRecord(OneRecord):
    """A substitute for a future in the inbox: the record is counted once it leaves there."""

    def __init__(self, result: BulkResult) -> None:
        super().__init__(result, -1)
        self._added = result

    @staticmethod
    def cancel() -> bool:
        """Do nothing: a record that never leaves the inbox is not counted."""
        return False

    def set_running_or_notify_cancel(self) -> bool:
        """True if the record is to be sent."""
        if not self.cancelled():
            self._index = self._added.add()
        return not self.cancelled()


P = ParamSpec("P")
R = TypeVar("R")


def blocking(
    method: Callable[Concatenate[producer.Producer[Any, Any], P], Coroutine[Any, Any, R]],
    *,
    after_records: bool = False,
) -> Callable[Concatenate[Producer[Any, Any], P], R]:
    """A method that waits for ``method`` of the producer in the thread, with its signature and
    docstring.

    ``after_records``: all records that were sent before are accepted or refused first.
    """

    @wraps(method)
    def blocked(self: Producer[Any, Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def call() -> R:
            if after_records:
                await self._thread.catch_up()
            result: R = await getattr(self._producer, method.__name__)(*args, **kwargs)
            return result

        return self._thread.ask(call)

    blocked.__module__ = __name__
    blocked.__signature__ = signature(method)  # type: ignore[attr-defined]
    del blocked.__wrapped__  # who unwraps a function would take this one for a coroutine function
    return blocked


@elsewhere(
    __aenter__="use `with`; aioproducer.Producer is the producer for `async with`",
    **in_other_producers(close="close(), or `with`", send="send(...).result()"),
)
class Producer(Generic[K_contra, V_contra]):
    """Sends records to Kafka from code without an event loop. Any thread can use it.

    Options, arguments and errors are those of :class:`aioproducer.Producer`. Serializers and
    ``on_send`` of interceptors run in the thread that calls :meth:`send`, maybe in several threads
    at once. Partitioners, ``prepare()`` of serializers, ``on_acknowledgement``, ``on_failed`` and
    callbacks of futures run in the producer's own thread. They must not block: a call that would
    wait there for this producer, or for one whose callback waits for it, raises
    :class:`IllegalStateError`; so do ``result()`` and ``exception()`` of a pending future. Records
    that this thread has not taken yet use up to another sixteenth of ``buffer_memory``.

    Close every producer. When the interpreter or a multiprocessing process exits, it closes the
    remaining ones, within 10 s each; ``os._exit`` and signals skip this. A forked child starts its
    own producer.
    """

    __signature__ = ShownOptions()

    config: ProducerConfig
    client_id: str

    _make_producer: Callable[..., producer.Producer[Any, Any]] = producer.Producer
    """Makes the producer that runs in the thread."""

    if MYPY:  # it would print all options of each overload, and pyright knows no default of a self

        def __init__(
            self: Producer[SentKey, SentValue],
            config: ConfigOf[SentKey, SentValue] | None = None,
            /,
            *,
            transaction: TransactionHandle | None = None,
            key_serializer: SerializerOf[SentKey] | None = None,
            value_serializer: SerializerOf[SentValue] | None = None,
            **options: Unpack[UntypedOptions],
        ) -> None: ...

    else:

        @overload
        def __init__(
            self,
            config: None = None,
            /,
            *,
            transaction: TransactionHandle | None = None,
            key_serializer: SerializerOf[K_contra] | None = NO_SERIALIZER,
            value_serializer: SerializerOf[V_contra] | None = NO_SERIALIZER,
            **options: Unpack[UntypedOptions],
        ) -> None: ...
        @overload
        def __init__(
            self,
            config: ProducerConfig | None,
            /,
            *,
            transaction: TransactionHandle | None = None,
            key_serializer: SerializerOf[K_contra] | None = None,
            value_serializer: SerializerOf[V_contra] | None = None,
            **options: Unpack[UntypedOptions],
        ) -> None: ...
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
            self._make(config, transaction, options)

    def _make(
        self,
        config: ProducerConfig | None,
        transaction: TransactionHandle | None,
        options: ProducerOptions,
    ) -> None:
        self._producer = self._make_producer(config, transaction=transaction, **options)
        self._core = self._producer._core
        self.config = self._producer.config
        self.client_id = self._producer.client_id
        self._thread = LoopThread(self._core)
        self._send = self._thread.writer.send

    def __repr__(self) -> str:
        # In the traceback of a wrong option there is none yet.
        made = getattr(self, "_producer", None)
        return "<Producer that is being made>" if made is None else repr(made)

    def __reduce__(self) -> NoReturn:
        refuse_pickle(self.client_id)

    def start(self, *, close_at_exit: bool = True) -> None:
        """Start the producer's thread: see :meth:`aioproducer.Producer.start`.

        ``close_at_exit``: close the producer when the interpreter exits, if it is still open.
        """
        self._thread.start(close_at_exit=close_at_exit)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if (
            not self._thread.forked
        ):  # a forked child leaves the block, and the producer to its parent
            self.close()

    def close(self, timeout: float | None = None) -> int:
        """Close: see :meth:`aioproducer.Producer.close`. Ctrl-C stops waiting for deliveries."""
        check_timeout(timeout)
        return self._thread.close(self._core.close_bound(timeout))

    def send(
        self,
        topic: str | ProducerRecord[K_contra | None, V_contra | None],
        value: V_contra | None = NO_VALUE,
        *,
        key: K_contra | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
    ) -> Future[RecordMetadata]:
        """Buffer a record for sending, and return a future for its outcome.

        Blocks for up to ``max_block_ms`` if memory is full. Records of one thread keep their order.
        The call copies buffers and serializes objects, so you can change them afterwards; see
        :meth:`aioproducer.Producer.send` for serializers with ``prepare()``. ``future.cancel()``
        returns True if the record was withdrawn, and False once the producer's thread has it. The
        error of an invalid record, or of a serializer, is set on the future. The call itself raises
        only the following errors.

        Raises:
            SerializationError: there is no value, or a :class:`ProducerRecord` was passed with
                other arguments.
            BufferExhaustedError: no memory within ``max_block_ms``, or in a callback no memory now.
            ProducerClosedError, ProducerBrokenError: the producer has ended.
            IllegalStateError: the producer was not started.
            WrongLoopError: the producer was created in another process.
        """
        tracing = self._core.tracing
        if tracing is None:
            return self._send(topic, value, key, partition, headers, timestamp_ms)
        return self._send_traced(tracing, (topic, value, key, partition, headers, timestamp_ms))

    def _send_traced(self, tracing: Tracing, fields: RecordFields) -> Future[RecordMetadata]:
        if fields[1] is NO_VALUE or type(fields[0]) is not str:
            fields = given_record(*fields)
        fields, trace = tracing.begin(fields)
        try:
            future = self._send(*fields)
        except BaseException as error:
            if trace is not None:
                end_refused(trace, fields, error)
            raise
        if trace is not None:
            future.add_done_callback(partial(end_by_future, trace, fields))
        return future

    def send_many(
        self,
        topic: str,
        values: ValuesToSend[K_contra, V_contra],
        *,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> SendReport:
        """Send many records, like :meth:`aioproducer.Producer.send_many`, but not from async
        iterables.

        Of a list, a tuple or Arrow columns, nothing may change before the call returns, and
        serializers run in the producer's thread. Ctrl-C cancels the call.
        """

        if is_arrow(values) or type(values) in (list, tuple):
            call = partial(self._producer.send_many, topic, values)
            return send_together(self._thread, partial(call, partition=partition, headers=headers))
        return send_values(self._thread, self._core, topic, values, partition, headers)

    def flush(self, timeout: float | None = None) -> None:
        """Wait for all records: see :meth:`aioproducer.Producer.flush`."""
        check_timeout(timeout)

        async def flush() -> None:
            await self._thread.catch_up()
            await self._producer.flush()

        self._thread.ask(flush, timeout)

    partitions_for = blocking(producer.Producer.partitions_for)
    partition_infos_for = blocking(producer.Producer.partition_infos_for)
    check = blocking(producer.Producer.check)

    # --- transactions ----------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, shared: bool = False) -> Iterator[None]:
        """Open a transaction for a ``with`` block: see :meth:`aioproducer.Producer.transaction`."""

        block: AbstractAsyncContextManager[None] | None = None

        async def enter() -> None:
            nonlocal block
            await self._thread.catch_up()
            begun = self._producer.transaction(shared=shared)
            await begun.__aenter__()
            block = begun

        async def leave(error: BaseException | None) -> None:
            if block is not None:
                if error is None:  # else an abort discards the records
                    await self._thread.catch_up()
                await block.__aexit__(type(error) if error else None, error, None)

        try:
            self._thread.ask(enter)
            yield
        except BaseException as raised:
            error = raised
            refused = block is None and isinstance(error, ProducerError)
            if not (refused or self._thread.forked):  # an interrupt may come when it has begun
                self._thread.ask(lambda: leave(error))
            raise
        self._thread.ask(lambda: leave(None))

    init_transactions = blocking(producer.Producer.init_transactions)
    begin_transaction = blocking(producer.Producer.begin_transaction, after_records=True)
    commit_transaction = blocking(producer.Producer.commit_transaction)
    abort_transaction = blocking(producer.Producer.abort_transaction)
    send_offsets_to_transaction = blocking(producer.Producer.send_offsets_to_transaction)
    committed_offsets = blocking(producer.Producer.committed_offsets)

    def transaction_handle(self, *, hand_over: bool = False) -> TransactionHandle:
        """The handle of the transaction: see :meth:`aioproducer.Producer.transaction_handle`."""

        async def handle() -> TransactionHandle:
            return self._producer.transaction_handle(hand_over=hand_over)

        return self._thread.ask(handle)

    def health(self) -> Health:
        """The producer's health, from any thread: see :meth:`aioproducer.Producer.health`."""
        health, ended = self._core.health(), self._thread.why_ended
        if ended is None or not health.is_live:
            return health
        state = "closed" if isinstance(ended, ProducerClosedError) else "broken"
        return replace(health, state=state, can_write=False, problems=(str(ended),))

    client_instance_id = blocking(producer.Producer.client_instance_id)

    def metrics(self) -> MetricsSnapshot:
        """The metrics of the producer: see :meth:`aioproducer.Producer.metrics`."""
        return self._producer.metrics()

    def latencies(self) -> Latencies:
        """The times of records: see :meth:`aioproducer.Producer.latencies`."""
        return self._producer.latencies()
