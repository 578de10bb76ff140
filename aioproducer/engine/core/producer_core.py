"""The core of a producer, which both shells and ``send_many()`` hold: its states and calls.

It exists before the start; the :class:`Engine` below it has the running parts.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.environment import current_environment
from aioproducer.engine.core.hooks import Hooks
from aioproducer.engine.core.lifecycle import Lifecycle, LifeLog
from aioproducer.engine.core.sending import FastPath, RecordFields, SendPipeline
from aioproducer.engine.core.tracing import Tracing
from aioproducer.engine.core.tracing import end as end_trace
from aioproducer.engine.interceptors import close_hooks
from aioproducer.engine.observer import ObservedFuture, Observer, ObserverSlot
from aioproducer.engine.observer import default as default_observer
from aioproducer.engine.records.acceleration import Routes
from aioproducer.errors import (
    IllegalStateError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
)
from aioproducer.foundation import logs
from aioproducer.foundation.codecs import codec_library
from aioproducer.foundation.logs import counted
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.threads import Load, load_here
from aioproducer.model import TransactionHandle

if TYPE_CHECKING:
    from uuid import UUID

    from aioproducer.engine.accumulator import MemoryWaiters
    from aioproducer.engine.core.engine import Engine
    from aioproducer.engine.core.health import Health
    from aioproducer.engine.core.transaction_api import TransactionApi
    from aioproducer.engine.metrics import Latencies, MetricsSnapshot

_NUMBERS: Final = count(1)

AT_END: Final = 10.0
"""Seconds to deliver for a producer that nobody has closed: at the end of its event loop
(:meth:`ProducerCore._close_with_loop`), or for a blocking one at the end of the process
(``sync/loop_thread.py``)."""


def loads_of(config: ProducerConfig) -> list[Load]:
    """The imports of all that a producer of ``config`` may need once it has started, after
    ``_load_engine``."""
    from aioproducer.engine.client.connections import loads_of_connections

    loads = loads_of_connections(config)
    if config.transactional_id is not None:
        loads.append(_load_transactions)
    if config.enable_metrics_push:
        loads.append(_load_telemetry)
    return loads


def _load_readings() -> None:
    """What ``health()`` and ``metrics()`` need. A signal handler that called these in the midst of
    an import would find the module half made, so a producer is not made without the modules."""
    import aioproducer.engine.core.health_source
    import aioproducer.engine.metrics.names  # noqa: F401


def _load_engine() -> None:
    import aioproducer.engine.core.engine  # noqa: F401


def _load_transactions() -> None:
    import aioproducer.engine.core.transaction_api
    import aioproducer.engine.sender.transaction_driver
    import aioproducer.engine.transactions.group_offsets
    import aioproducer.engine.transactions.manager  # noqa: F401


def _load_telemetry() -> None:
    import aioproducer.engine.metrics.names
    import aioproducer.engine.telemetry.payload_maker  # noqa: F401


def load_for(config: ProducerConfig) -> None:
    """Import, in the present thread, what a producer of ``config`` may need at its start and later.

    Raises :class:`MissingExtraError` if the library of its codec is not installed.
    """
    codec_library(config.compression_type)
    load_here((_load_engine,))
    load_here(loads_of(config))
    load_here(_loads_of_logins(config))


def _loads_of_logins(config: ProducerConfig) -> Sequence[Load]:
    """The imports of libraries for logins, after those of :func:`loads_of`."""
    from aioproducer.engine.client.connections import loads_of_logins

    return loads_of_logins(config)


class Unavailable:
    """In place of :class:`MemoryWaiters` if there are none, or another process has them.

    It makes callers wait, and the wait raises the reason.
    """

    is_full = True

    def must_wait(self) -> bool:
        """Always True."""
        return True


async def drain(waiters: MemoryWaiters, caller: object, clock: Callable[[], float]) -> None:
    """Wait for room, behind earlier callers. Source: ``StreamWriter.drain``."""
    waited, stalled = False, caller in waiters.stalled
    while (room := waiters.room_for(caller, clock())) is not None:
        waited = True
        await room
        if caller not in waiters.stalled:
            return
    if stalled and not waited:
        await asyncio.sleep(0)  # a caller whose records are refused must not hold the loop


class ProducerCore:
    """A producer without its public methods.

    ``transaction``: another producer's transaction in which this one takes part. ``loads``: the
    imports that the public methods may need later.
    """

    def __init__(
        self,
        config: ProducerConfig,
        transaction: TransactionHandle | None,
        loads: Sequence[Load] = (),
    ) -> None:
        load_here((_load_readings,))
        self._environment = environment = current_environment()
        self.config = config
        self.client_id = config.client_id or f"producer-{next(_NUMBERS)}"
        self._life_log = LifeLog(self.client_id, environment.clock)
        self.hooks = Hooks(config, self._life_log.lines, environment.interceptors)
        self.fast_path = FastPath()
        self.observed = ObserverSlot()
        """The place of the observer; :meth:`observe` sets it."""
        self.tracing: Tracing | None = None
        """The traces of records and calls; None: there is no observer."""
        self.routes = Routes()
        """The routes of the fast path; empty if hooks rule it out."""
        self.routes_of_bytes = self.routes
        """The routes of records whose serializers were called."""
        self.back_pressure: MemoryWaiters | Unavailable = Unavailable()
        """A view of the memory, for callers that send more."""
        self.wall_clock_ns = environment.wall_clock_ns
        """The clock of records' timestamps, in nanoseconds since the epoch."""
        self.lifecycle = Lifecycle(self.client_id)
        self._transaction = transaction
        self._loads = loads
        self._engine: Engine | None = None
        self.pipeline: SendPipeline
        """The long way of records, once the producer has started."""

    def __repr__(self) -> str:
        if not hasattr(self, "lifecycle"):  # in a traceback, with an error of the configuration
            return "<Producer that is being made>"
        return f"<Producer {self.client_id!r} {self.lifecycle}>"

    # --- the observer ----------------------------------------------------------------------

    def observe(self, observer: Observer | None) -> None:
        """Let ``observer`` follow the records that are sent from now on; None: nobody."""
        former, self.observed.observer = self.observed.observer, observer
        traced = observer if observer is not None and observer.traces else None
        self.tracing = (
            None if traced is None else Tracing(traced, self.fast_path, self._life_log.lines)
        )
        self.fast_path.trace(None if traced is None else traced.context)
        if former is not None:
            close_hooks([former])

    def unobserve(self, observer: Observer) -> None:
        """Let ``observer`` follow no more records, unless another one has replaced it."""
        if self.observed.observer is observer:
            self.observe(None)

    def _ask_default_observer(self) -> None:
        factory = default_observer()
        if factory is None or self.observed.observer is not None:
            return
        try:
            self.observe(factory(self))
        except Exception as error:
            self._life_log.no_observer(factory, error)

    def _close_observer(self) -> None:
        if self.observed.observer is not None:
            close_hooks([self.observed.observer])

    # --- life ------------------------------------------------------------------------------

    async def start(self, *, initialize: bool = True) -> None:
        """Start the parts on the running loop, and get a transactional producer its epoch now."""
        life = self.lifecycle
        life.start()
        self._ask_default_observer()
        try:
            await self._load()
            from aioproducer.engine.core.engine import Engine

            self._engine = engine = Engine(
                self.config,
                self.client_id,
                self.hooks,
                self.part_died,
                self._environment,
                self._transaction,
                self.observed,
                self._life_log.lines,
            )
            await engine.resolve_bootstrap()
        except BaseException:
            self._engine = None
            life.start_failed()
            await self.hooks.close()
            self._close_observer()
            raise
        if life.closed:
            raise self._closed_meanwhile()
        self.pipeline = engine.pipeline
        self.back_pressure = engine.accumulator.waiters
        engine.start(self._close_with_loop)
        if self.hooks.only_serialize:
            self.routes_of_bytes = engine.accumulator.routes
        if not self.hooks:
            self.routes = engine.accumulator.routes
        forks.owned(self)
        # In a transaction the long way checks for each batch that no record has failed.
        begin = engine.accumulator.begin if engine.transactions is None else None
        wait, clock = self.pipeline.wait, engine.clock
        self.fast_path.open(life.loop, self.routes, begin, wait, clock, self.wall_clock_ns)
        self._life_log.started(self.config)
        if engine.transactions is not None and initialize:
            try:
                await engine.transactions.initialize(None)
            except BaseException:
                await self.close(0)
                raise

    async def _load(self) -> None:
        """Import what the producer may need later."""
        load = self._environment.load
        await load((_load_engine, *self._loads))
        await load(loads_of(self.config))
        await load(_loads_of_logins(self.config))
        if self.lifecycle.closed:
            raise self._closed_meanwhile()

    def _closed_meanwhile(self) -> ProducerClosedError:
        return ProducerClosedError(f"the producer {self.client_id!r} was closed as it started")

    async def close(self, timeout: float | None) -> int:
        """Do :meth:`Engine.close`, or wait for it; returns the number of records given up."""
        life, engine = self.lifecycle, self._engine
        if engine is None:
            life.close_unstarted()
            await self.hooks.close()
            self._close_observer()
            return 0
        engine.close_called()
        if life.closing is None:
            life.check_same_place()
            self.fast_path.close()
            life.begin_closing(self._close(engine, timeout))
        assert life.closing is not None
        return await engine.closed(life.closing, timeout)

    def close_bound(self, timeout: float | None = None, *, at_end: bool = False) -> float:
        """Seconds that :meth:`close` delivers: ``delivery_timeout_ms`` without a ``timeout``.

        ``at_end``: nobody has closed the producer. It has :data:`AT_END` at most.
        """
        longest = self.config.delivery_timeout_ms / 1000
        return min(AT_END, longest) if at_end else longest if timeout is None else timeout

    async def _close_with_loop(self) -> None:
        """Close the producer at the end of its event loop, if nobody has done so."""
        if self.lifecycle.closing is None and self.lifecycle.broken is None:
            bound = self.close_bound(at_end=True)
            self._life_log.unclosed(bound)
            await self.close(bound)
        else:
            await self.close(None)

    async def _close(self, engine: Engine, timeout: float | None) -> int:
        logs.enter(self._life_log.lines)
        try:
            undelivered = await engine.close(self.close_bound(timeout))
        finally:
            self._close_observer()
        self._life_log.closed(engine.accumulator.topic_outcomes, undelivered)
        return undelivered

    def part_died(self, cause: BaseException) -> None:
        """Break the producer: fail its records and refuse all calls, because of ``cause``."""
        life = self.lifecycle
        if life.broken is not None or life.closed or life.forked or self._engine is None:
            return
        self.fast_path.close()
        why = f"{type(cause).__name__}: {cause}."
        if isinstance(cause, asyncio.CancelledError):
            why = f"{cause}; did its event loop end before `await producer.close()`?"
        accumulator = self._engine.accumulator
        lost = accumulator.records_without_outcome
        left = f"{counted(lost, 'record')} had no outcome. " if lost else ""
        error = ProducerBrokenError(
            f"the producer {self.client_id!r} is broken and sends no more: {why} "
            f"{left}Close it and make a new one"
        )
        error.__cause__ = cause
        life.break_with(error)
        self._life_log.broken(error, cause)
        self._engine.break_down(error)

    def check_usable(self) -> None:
        """Raise the reason if the producer can't be used here and now."""
        if not self.fast_path.serves():
            self.lifecycle.refuse()

    @property
    def engine(self) -> Engine:
        """The running parts. Raises the reason if the producer can't be used here and now."""
        self.check_usable()
        assert self._engine is not None
        return self._engine

    @property
    def transactions(self) -> TransactionApi:
        """The transactional calls. Raises IllegalStateError without a ``transactional_id``."""
        transactions = self.engine.transactions
        if transactions is None:
            raise IllegalStateError(
                f"the producer {self.client_id!r} has no transactional_id: give it one, unique "
                "among the producers of the cluster and the same after a restart"
            )
        return transactions

    # --- records ---------------------------------------------------------------------------

    def send(
        self, fields: RecordFields, future: asyncio.Future[Any] | None = None
    ) -> asyncio.Future[Any]:
        """Send a record that did not take the fast path; trace it, if it is to be traced.

        Returns ``future``, or a new one, which gets the outcome.
        """
        if future is None:
            future = self.lifecycle.loop.create_future()
        if self.tracing is None:
            self.pipeline.put(fields, future)
            return future
        fields, trace = self.tracing.begin(fields)
        if trace is None:
            self.pipeline.put(fields, future)
            return future
        token = ObservedFuture(future, fields[0], fields[3], partial(end_trace, trace))
        try:
            self.pipeline.put(fields, token)
        except BaseException as error:
            if not token.done():
                token.refused(error)
            raise
        return future

    def withdraw_cancelled(self) -> None:
        """Take all cancelled records out of the pending ones."""
        if self._engine is not None:
            pending = self._engine.accumulator.pending
            pending.withdraw_cancelled()

    async def drain(self) -> None:
        """Wait until there is room for more records of the present task.

        Callers ask ``back_pressure.is_full`` first, and so save a coroutine for each record.
        """
        if self.back_pressure.must_wait():
            engine = self.engine
            await drain(engine.accumulator.waiters, current_task(), engine.clock)

    def room_for(self, caller: object) -> asyncio.Future[None] | None:
        """A future for when ``caller``, a thread, may send more; None: now."""
        if not self.back_pressure.is_full:
            return None
        engine = self.engine
        waiters: MemoryWaiters = engine.accumulator.waiters
        room: asyncio.Future[None] | None
        room = waiters.room_for(caller, engine.clock(), patient=True)
        return room

    def hold_commit(self) -> AbstractContextManager[None]:
        """A ``send_many()``: until it ends, its transaction is not committed."""
        transactions = None if self._engine is None else self._engine.transactions
        return nullcontext() if transactions is None else transactions.hold_commit()

    def record_failed(self, error: BaseException) -> None:
        """Note a failed record whose error no call has raised: it fails the transaction."""
        transactions = None if self._engine is None else self._engine.transactions
        if transactions is not None and isinstance(error, ProducerError):
            transactions.record_failed(error)

    async def client_instance_id(self, timeout: float | None) -> UUID:
        """The id that a broker has assigned to this producer (KIP-714)."""
        engine = self.engine
        telemetry = engine.telemetry
        if telemetry is None:
            raise IllegalStateError(
                f"the producer {self.client_id!r} has no client instance id, because "
                "enable_metrics_push is False"
            )
        return await telemetry.client_instance_id(engine.max_block if timeout is None else timeout)

    def metrics(self) -> MetricsSnapshot:
        """All metrics as they are now."""
        self.lifecycle.check_process()
        if self._engine is None:
            raise IllegalStateError("the producer was not started, so there are no metrics yet")
        return self._engine.snapshot_metrics()

    def latencies(self) -> Latencies:
        """The times of records since the start."""
        self.lifecycle.check_process()
        if self._engine is None:
            raise IllegalStateError("the producer was not started, so there are no latencies yet")
        return self._engine.metrics.latencies(self._engine.clock())

    def health(self) -> Health:
        """The health as it is now; any thread may ask, in every state."""
        from aioproducer.engine.core.health_source import health_of

        return health_of(self.client_id, self.lifecycle, self._engine)

    def disown(self) -> None:
        """Refuse every call: this process is a fork of the process that has the producer."""
        here = self.fast_path.serves()
        self.fast_path.close()
        self.back_pressure = Unavailable()
        if self._engine is not None:
            self._engine.disown(self.lifecycle.other_process(), runs_on=here)
