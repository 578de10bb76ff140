"""A life: an application, its brokers and what goes wrong, all from one plan."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final

from aioproducer import (
    FailedRecord,
    Producer,
    ProducerError,
    ProducerTimeoutError,
    TopicPartition,
)
from aioproducer.reader import Reader
from aioproducer.testing.simulation.kafka import ClusterOptions
from aioproducer.testing.simulation.network import Connection
from aioproducer.testing.simulation.world import SimulatedWorld
from tests.simulation.callers import Application, Caller
from tests.simulation.faults import Faults, Network
from tests.simulation.hooks import (
    ADDED,
    CountingInterceptor,
    CountingObserver,
    WaitingSerializer,
    partitioner,
    without_hooks,
)
from tests.simulation.journal import Call, Journal, Sent
from tests.simulation.knobs import tuned
from tests.simulation.plan import (
    FORGETFUL,
    INPUT,
    LOGIN,
    MURMUR2,
    PARTITIONS_OF_INPUT,
    PASSWORD,
    TOPICS,
    USER,
    Plan,
    Step,
)
from tests.simulation.watchdog import Turns, Watchdog
from tests.simulation.wire import Wire
from tests.support.simulated_world import loop_of, model_of, network_of, run_in

PATIENCE: Final = 2_000.0
"""Seconds of the virtual clock after which a call that should have ended has not."""
MOST_STEPS: Final = 400_000
SLOW_REPLICAS: Final = 0.1, 0.5
"""Seconds until a slow follower has what its leader has."""
TRANSACTIONS_END: Final = 70.0
"""Seconds in which coordinators abort transactions that nobody ends."""
OWN_TASKS: Final = "main", "fences", "closes midway", "cancels all"
"""The names of tasks that belong to the life itself."""
HEAL: Final = 30.0
"""Seconds in which the brokers come to rest."""


class Life:
    """Lives a plan once; :attr:`journal` tells what happened."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        options = ClusterOptions(
            transaction_version=plan.transaction_version,
            topic_config={"min.insync.replicas": "2" if plan.brokers == 3 else "1"},
            replication=SLOW_REPLICAS if plan.slow_replicas else ClusterOptions.replication,
            names_duplicates=plan.names_duplicates,
            metadata=(0.0, plan.news_takes),
            credentials={USER: PASSWORD} if plan.session_lifetime_ms else None,
            session_lifetime_ms=plan.session_lifetime_ms,
            telemetry_interval_ms=plan.telemetry_interval_ms,
        )
        self.world = SimulatedWorld(
            plan.seed, plan.brokers, timers_first=plan.timers_first, options=options
        )
        self.loop = loop_of(self.world)
        self.loop.step_seconds = plan.step_seconds
        executor = Random(f"{plan.seed} executor")
        self.loop.executor_delay = lambda: executor.choice(plan.executor_delays)
        self.journal = Journal()
        self.applications: dict[str, Application] = {}
        self.down: set[int] = set()
        """The brokers that are down."""
        self.fenced: set[str] = set()
        """The producers whose transactional id another producer has taken, or tried to."""
        self.expiries: list[dict[TopicPartition, int]] = []
        """The ends of the logs whenever the brokers forgot the producers."""
        self.loop_ends = False
        """True once all tasks were cancelled: each producer then closes by itself as well."""
        self._fencing: list[asyncio.Task[None]] = []
        self.lived: set[str] = set()
        """The switches of the plan that had an effect."""
        self.turns = Turns(self)
        self.watchdog = Watchdog(self)
        self.story: list[str] = []
        """The events as they happened, in words."""
        self.wires: list[Wire] = []
        """All connections that clients have opened."""
        self.trace = hashlib.sha256()
        """A digest of all bytes on all connections, and of their moments."""
        self._stop_in = 0
        self._stop_for = 0.0
        self._faults = Faults(self, Network(self.world, plan.delays))
        for name, partitions in {**TOPICS, INPUT: PARTITIONS_OF_INPUT}.items():
            self.world.cluster.create_topic(name, partitions)
        network_of(self.world).on_connection = self._follow

    def _follow(self, connection: Connection) -> None:
        number = len(self.wires) + 1
        wire = Wire(
            connection,
            number,
            self.loop,
            self.trace.update,
            self.plan.forgets_after,
            self.turns.written,
        )
        self.wires.append(wire)

    def tell(self, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.world.now:9.3f} s  {what}")

    # --- time ------------------------------------------------------------------------------

    @property
    def stopped(self) -> float:
        """Seconds for which the process was stopped or held, until now."""
        return self.loop.stopped

    @property
    def running_time(self) -> float:
        """The clock's seconds without those for which the process was stopped or held."""
        return self.loop.time() - self.stopped

    def stop(self, seconds: float, place: str) -> None:
        """Stop the process: now, between sockets and timers, or between two callbacks."""
        match place:
            case "poll":
                self.loop.stop_at_poll(seconds)
            case "step":
                self._stop_in, self._stop_for = 3, seconds
                self.loop.before_step = self._count_down
            case _:
                self.loop.pass_time(seconds)

    def _count_down(self) -> None:
        self._stop_in -= 1
        if self._stop_in == 0:
            self.loop.before_step = lambda: None
            self.loop.pass_time(self._stop_for)

    @contextmanager
    def call(self, what: str, producer: str, timeout: float | None = None) -> Iterator[Call]:
        """Note a call with a bound."""
        call = Call(what, producer, self.loop.time(), timeout=timeout, stopped=self.stopped)
        self.journal.calls.append(call)
        hooked = "on_failed" in self.plan.producers[producer]
        try:
            yield call
        except ProducerError as error:
            call.error = error
            if not (hooked and isinstance(error, ProducerTimeoutError)):  # the hook may be slow
                raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self.journal.broken("calls_end", f"{what} of producer {producer}: it was cancelled")
        finally:
            call.ended, call.stopped = self.loop.time(), self.stopped - call.stopped

    def fence(self) -> None:
        """Start other producers with the transactional ids, and close them."""
        for name in self.plan.producers:
            task = self.loop.create_task(self._fence(name), name=f"fences {name}")
            self._fencing.append(task)

    async def _fence(self, name: str) -> None:
        self.fenced.add(name)
        owned = self.applications[name].started
        options = {**self.plan.producers[name], "on_failed": None}
        other = self._make_producer(f"{name}-2", without_hooks(options))
        try:
            await other.start()
        except ProducerError as error:
            self.tell(f"producer {name} was not fenced: {error}")
        else:
            if owned:
                self.journal.taken.setdefault(name, self.loop.time())
        await other.close(5.0)

    def _make_producer(self, client_id: str, options: dict[str, Any]) -> Producer[Any, Any]:
        return Producer(
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            client_id=client_id,
            **self._login,
            **{"enable_metrics_push": False, **options},
        )

    def _make_application(self, name: str, options: dict[str, Any]) -> Application:
        hook = self._hook(name) if "on_failed" in options else None
        made: dict[str, Any] = {**without_hooks(options), "on_failed": hook}
        if "serializer" in options:
            made["value_serializer"] = WaitingSerializer(options["serializer"], self.lived.add)
        if "partitioner" in options:
            made["partitioner"] = partitioner(MURMUR2, self.lived.add)
        interceptor = CountingInterceptor() if "interceptors" in options else None
        if interceptor is not None:
            made["interceptor_classes"] = (interceptor,)
        application = Application(name, self._make_producer(name, made), self)
        if interceptor is not None:
            application.interceptor, application.added_headers = interceptor, (ADDED,)
        if "tracing" in options:
            application.observer = CountingObserver()
            application.producer._core.observe(application.observer)
        return application

    def _hook(self, name: str) -> Callable[[FailedRecord], Awaitable[None]]:
        return lambda record: self.applications[name].failed(record)

    @property
    def _login(self) -> Any:
        return LOGIN if self.plan.session_lifetime_ms else {}

    def closing(self, producer: str) -> bool:
        """True if a producer is closed in the midst of it all."""
        return producer in self.journal.closed

    # --- living ----------------------------------------------------------------------------

    def live(self) -> Journal:
        """Live the plan, from its beginning to its end."""
        gc.collect(1)  # the life before, which was young at its end
        try:
            with _without_log(), tuned(self.plan.knobs):
                run_in(self.world, self._main())
        except Exception as error:
            self.journal.broken("it_lives", f"the life ended by {type(error).__name__}: {error}")
        finally:
            self._faults.network.factor = 1.0
        self._note_lived()
        gc.collect(0)
        return self.journal

    async def _main(self) -> None:
        for event in self.plan.events:
            self.world.at(event.at, _begin(self._faults, event))
        for name, options in self.plan.producers.items():
            self.applications[name] = self._make_application(name, options)
        self.loop.before_sleep = self.watchdog.look
        reading = self.loop.create_task(self._read_along()) if self.plan.reads else None
        tasks = [
            self.loop.create_task(self._run_application(each), name=f"application {each.name}")
            for each in self.applications.values()
        ]
        if self.plan.closes_after is not None:
            tasks.append(self.loop.create_task(self._close_midway(), name="closes midway"))
        if self.plan.cancelled_after is not None:
            tasks.append(self.loop.create_task(self._cancel_all(), name="cancels all"))
        await self._bounded("the callers", asyncio.gather(*tasks))
        self._faults.end_all()
        if self._fencing:
            await self._bounded("the fencing", asyncio.gather(*self._fencing))
        self.tell("peace")
        await asyncio.sleep(HEAL)
        for application in self.applications.values():
            await self._bounded("the end", self._end(application))
        await asyncio.sleep(TRANSACTIONS_END)
        await self._bounded("reading back", self._read_back())
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled() and reading.exception() is not None:
                self.journal.broken(
                    "the_reader_lives", f"the Reader failed: {reading.exception()!r}"
                )
        self.loop.before_sleep = None
        await asyncio.sleep(1.0)  # the last bytes arrive
        self._look_for_leftovers()

    async def _bounded(self, what: str, waiting: Any) -> None:
        try:
            async with asyncio.timeout(PATIENCE + sum(e.args[0] for e in self._freezes())):
                await waiting
        except TimeoutError:
            self.journal.broken("calls_end", f"{what}: no end")
            raise

    def _freezes(self) -> list[Any]:
        return [event for event in self.plan.events if event.kind == "freeze"]

    async def _run_application(self, application: Application) -> None:
        try:
            await self._run_callers(application)
        except asyncio.CancelledError:
            if self.plan.cancelled_after is None:
                raise
            await self._close_orderly(application)
        finally:
            application.at_rest = True

    async def _run_callers(self, application: Application) -> None:
        try:
            await application.producer.start()
        except ProducerError as error:
            application.stop(error)
            self.tell(f"producer {application.name} did not start: {error}")
            return
        application.started = True
        callers = [
            self.loop.create_task(Caller(name, application).run(steps), name=f"caller {name}")
            for name, (producer, steps) in self.plan.callers.items()
            if producer == application.name
        ]
        if callers:
            await asyncio.gather(*callers)
        if application.aside:
            await asyncio.wait(application.aside)
        if self.plan.closes_at_once:
            self.lived.add("closes at once")
            await self._close_orderly(application)

    async def _close_orderly(self, application: Application) -> None:
        """Leave ``async with``, as far as nobody has closed the producer before."""
        if not self.closing(application.name):
            self.journal.left.add(application.name)
            self.journal.closed.add(application.name)
            self.tell(f"producer {application.name} is left")
            await self._close(application, None)

    async def _cancel_all(self) -> None:
        """Cancel the tasks of the applications and of their clients, at one moment."""
        assert self.plan.cancelled_after is not None
        await asyncio.sleep(self.plan.cancelled_after)
        self.tell("all tasks are cancelled")
        self.loop_ends = True
        for task in sorted(asyncio.all_tasks(), key=hash):
            if not task.done() and not task.get_name().startswith(OWN_TASKS):
                self.lived.add("cancelled")
                task.cancel()
        for application in self.applications.values():
            if application.at_rest and not self.closing(application.name):
                self.journal.closed.add(application.name)  # by itself, as nobody else will
                application.stop(ProducerError("cancelled"))

    async def _close_midway(self) -> None:
        [application, *_] = self.applications.values()
        assert self.plan.closes_after is not None
        await asyncio.sleep(self.plan.closes_after)
        await self.close_midway(application)

    async def close_midway(self, application: Application) -> None:
        """Close a producer in the midst of it all."""
        self.journal.closed.add(application.name)
        self.tell(f"producer {application.name} is closed")
        await self._close(application, self.plan.close_timeout)

    async def _close(self, application: Application, timeout: float | None) -> None:
        application.stop(ProducerError("closed"))
        with self.call("close", application.name, timeout):
            await application.producer.close(timeout)

    # --- the end ---------------------------------------------------------------------------

    async def _end(self, application: Application) -> None:
        """Flush, see that it goes on, and close."""
        if application.ended is None:
            with self.call("flush", application.name):
                await application.producer.flush()
            await self._goes_on(application)
        if not self.closing(application.name):
            await self._close(application, 60.0)

    async def _goes_on(self, application: Application) -> None:
        """Nothing is left of it all: memory is whole, and the next records are delivered."""
        producer = application.producer
        metrics = producer.metrics()["producer-metrics"]
        free, total = metrics["buffer-available-bytes"], metrics["buffer-total-bytes"]
        if free != total:
            self.journal.broken(
                "memory_returns",
                f"producer {application.name}: {total - free:g} bytes of memory did not return",
            )
        caller = Caller(f"{application.name} at peace", application)
        # A request that comes after the end of its transaction leaves a verification behind, which
        # refuses the next batch of the partition as out of order (KIP-890, version 1).
        late = self.plan.transaction_version == 1 and self.plan.kinds & {"stall", "slow", "silent"}
        if self.plan.kinds & FORGETFUL or late:  # the first batch may show that it does not fit
            await self._send_to_all(caller)
        for sent in await self._send_to_all(caller):
            if sent.error is not None and application.ended is None:
                self.journal.broken("it_goes_on", f"{sent.name} failed at peace: {sent.error!r}")

    async def _send_to_all(self, caller: Caller) -> list[Sent]:
        """Send a record to each topic, and return what was sent."""
        last = len(self.journal.sent)
        steps = tuple(
            Step("send_and_wait", (10, topic, number))
            for topic, partitions in TOPICS.items()
            for number in range(partitions)
        )
        if "transactional_id" in self.plan.producers[caller.app.name]:
            await caller.transact("commit", 0.0, steps)
        else:
            await caller.run(steps)
        return self.journal.sent[last:]

    async def _read_along(self) -> None:
        """Read while everything goes on."""
        reader = Reader(
            list(TOPICS),
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            isolation_level="read_committed",
            client_id="reader",
            **self._login,
        )
        try:
            await reader.start()
        except ProducerError as error:
            self.journal.read_errors.append(error)
            return
        try:
            while True:
                try:
                    async for record in reader:
                        self.journal.read.append(record)
                except ProducerError as error:
                    self.journal.read_errors.append(error)
                    await asyncio.sleep(0.1)
        finally:
            await reader.close()

    async def _read_back(self) -> None:
        for isolation in ("read_committed", "read_uncommitted"):
            async with Reader(
                list(TOPICS),
                bootstrap_servers=self.world.cluster.bootstrap_servers,
                isolation_level=isolation,
                end="end",
                client_id="reader-back",
                **self._login,
            ) as reader:
                self.journal.read_back[isolation] = [record async for record in reader]
        if self.plan.reads_beyond:
            self.journal.read_back["beyond"] = await self._read_from_beyond()

    async def _read_from_beyond(self) -> list[Any]:
        """The records that a reader finds whose positions are behind the ends of the logs."""
        model = model_of(self.world)
        beyond = {
            TopicPartition(topic, number): model.high_watermark(topic, number) + 5
            for topic, partitions in TOPICS.items()
            for number in range(partitions)
        }
        async with Reader(
            beyond,
            bootstrap_servers=self.world.cluster.bootstrap_servers,
            end="end",
            auto_offset_reset="earliest",
            client_id="reader-beyond",
            **self._login,
        ) as reader:
            return [record async for record in reader]

    def _note_lived(self) -> None:
        """Note the switches that show their effect in the end."""
        if self.plan.knobs:
            self.lived.add("knobs")
        if model_of(self.world).cluster.pushes:
            self.lived.add("telemetry")
        if self.journal.kept:
            self.lived.add("failed records")
        for application in self.applications.values():
            if application.interceptor is not None and application.interceptor.acknowledged:
                self.lived.add("interceptors")
            if application.observer is not None and application.observer.given:
                self.lived.add("tracing")
            if "compression_type" in self.plan.producers[application.name] and application.sent:
                self.lived.add("codec")
        self.lived &= self.plan.switches

    def _look_for_leftovers(self) -> None:
        current = asyncio.current_task()
        left = [t.get_name() for t in self.loop.tasks if not t.done() and t is not current]
        if left:
            self.journal.broken("nothing_is_left", f"tasks are left: {sorted(left)}")
        if self.loop.timers:
            self.journal.broken("nothing_is_left", f"timers are left: {self.loop.timers}")
        if network_of(self.world).connections:
            self.journal.broken("nothing_is_left", "connections are left")


def _begin(faults: Faults, event: Any) -> Callable[[], object]:
    return lambda: faults.begin(event)


@contextmanager
def _without_log() -> Iterator[None]:
    root = logging.getLogger("aioproducer")
    before = root.level
    root.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        root.setLevel(before)
