"""A simulated world for a test: an event loop in virtual time, a network, and a Kafka cluster.

The brokers of a :class:`SimulatedCluster` are the model of Kafka on a network in memory.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import Any, Final, Literal, TypeVar

from aioproducer.engine.client.environment import Environment, use_environment
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.errors import BrokerConnectionError, IllegalStateError, KafkaError
from aioproducer.foundation.runtime.threads import Load, load_here
from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.testing.read_records import ReadRecords
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel
from aioproducer.testing.simulation.kafka.partition import NO_LEADER, Partition
from aioproducer.testing.simulation.loop import BEGIN, Agenda, Event, SimulatedLoop
from aioproducer.testing.simulation.network import Accepting, Connection, SimulatedNetwork

EPOCH: Final = 1_750_000_000.0
"""The time of Unix at the zero of the virtual clock, in seconds."""
LEAST_PAUSE: Final = 1e-6
"""Seconds by which the model's time moves on at least: sums of large numbers are rounded."""
MOST_REPLICAS: Final = 3


class SimulatedCluster:
    """The Kafka cluster of :func:`simulate`, and its faults.

    Methods take effect at the current time of the virtual clock. Brokers are identified by their
    ids, which start at 1.

    The model follows Kafka's rules for leader epochs, replication, sequence numbers of idempotent
    producers, transactions, and consumer groups with their committed offsets.
    """

    def __init__(
        self,
        brokers: int,
        network: SimulatedNetwork,
        agenda: Agenda,
        random: Random,
        options: ClusterOptions | None = None,
    ) -> None:
        self._agenda = agenda
        self._network = network
        self._random = random
        self._next: Event | None = None
        self.brokers: Sequence[int] = range(1, brokers + 1)
        """The ids of the brokers."""
        self._model = KafkaModel(brokers, random=random, options=options or ClusterOptions())
        for broker in self.brokers:
            network.accept(self._address(broker), self._accepting(broker))

    @property
    def bootstrap_servers(self) -> str:
        """The option for producers, readers, consumers and admins in this world."""
        return ",".join(f"{host}:{port}" for host, port in map(self._address, self.brokers))

    # --- topics ----------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int | None = None, **config: Any
    ) -> None:
        """Create a topic. ``replicas`` None: one on every broker, at most three.

        ``config``: Kafka's names with underscores: ``min_insync_replicas=2``.
        """
        wanted = min(len(self.brokers), MOST_REPLICAS) if replicas is None else replicas
        settings = {name: str(value) for name, value in config.items()}
        self._model.create_topic(name, partitions, wanted, **settings)
        self._moved_on()

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of the broker that leads a partition; None if there is no leader."""
        leader = self._model.partition(topic, partition).leader
        return None if leader == NO_LEADER else leader

    def records(self, topic: str) -> ReadRecords:
        """Return the records that a ``read_committed`` consumer would see, without a request.

        Records that are not on all in-sync replicas, and records of aborted and open transactions,
        are not included. Use :func:`expect` for assertions on them.

        Raises:
            LookupError: the topic does not exist.
        """
        partitions = self._model.topic(topic).partitions
        records = [record for partition in partitions for record in _committed(partition)]
        ends = {each.where: each.last_stable_offset for each in partitions}
        return ReadRecords(records, ends, "read_committed")

    def committed_offsets(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, without those of open transactions."""
        return self._model.committed_offsets(group)

    # --- faults of brokers -----------------------------------------------------------------

    def crash(self, broker: int, *, lose_unreplicated: bool = False) -> None:
        """Crash a broker. Nothing happens if it is already down.

        After 0.1 to 1 second, depending on the seed, other in-sync replicas lead its partitions.
        ``lose_unreplicated``: records that no other broker has are lost, which can happen with
        ``acks=1``. False: the other replicas got them at the last moment.
        """
        if self._runs(broker):
            self._change(self._model.crash, broker, lose_unreplicated=lose_unreplicated)
            self._cut(broker)

    def restart(self, broker: int) -> None:
        """Restart a crashed broker. Nothing happens if it is running."""
        if not self._runs(broker):
            self._change(self._model.restart, broker)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make another broker the leader of a partition, if it is a running in-sync replica."""
        self._check(to)
        self._change(self._model.move_leader, topic, partition, to)

    def throttle(self, throttle_time_ms: int, *, requests: int = 1) -> None:
        """Throttle each of the next requests by this many milliseconds, like a quota (KIP-219)."""
        self._model.throttle(throttle_time_ms, requests)

    def fail_next(
        self, api_key: int, error: type[KafkaError], *, broker: int | None = None, times: int = 1
    ) -> None:
        """Answer the next requests of a kind with an error, without executing them.

        ::

            cluster.fail_next(ApiKey.PRODUCE, NotEnoughReplicasError, times=2)

        ``api_key``: Kafka's number, such as a member of
        :class:`~aioproducer.testing.fault_proxy.ApiKey`. ``broker`` None: any broker.
        """
        self._model.fail_next(api_key, error.code, broker=broker, times=times)

    def lose_next_response(
        self, api_key: int, *, broker: int | None = None, times: int = 1
    ) -> None:
        """Execute the next requests of a kind, but reset the connection instead of responding. The
        client cannot know whether the request was executed.
        """
        self._model.lose_next_response(api_key, broker=broker, times=times)

    # --- faults of the network -------------------------------------------------------------

    def set_latency(self, least: float, most: float | None = None) -> None:
        """Set the network latency to between ``least`` and ``most`` seconds, drawn for each chunk
        of bytes.

        ``most`` None: exactly ``least``. The default is 0.5 to 5 milliseconds.
        """
        upper = least if most is None else most
        self._network.delay = lambda: self._random.uniform(least, upper)

    def cut(self, broker: int) -> None:
        """Reset the connections to a broker. Bytes in transit are lost. New connections are
        accepted."""
        self._check(broker)
        self._cut(broker)

    def stall(
        self, broker: int, direction: Literal["both", "requests", "responses"] = "both"
    ) -> None:
        """Silently block all bytes between clients and a broker until :meth:`release`.

        With ``requests`` the broker still answers requests that it has received. With ``responses``
        it still receives and executes requests. New connections are never answered.
        """
        self._check(broker)
        self._network.silent.add(self._address(broker))
        for connection in self._connections(broker):
            if direction != "responses":
                connection.requests.stall()
            if direction != "requests":
                connection.responses.stall()

    def release(self, broker: int) -> None:
        """End a stall. Bytes in transit now arrive."""
        self._check(broker)
        self._network.silent.discard(self._address(broker))
        for connection in self._connections(broker):
            connection.requests.release()
            connection.responses.release()

    # --- the model -------------------------------------------------------------------------

    def _check(self, broker: int) -> None:
        if broker not in self.brokers:
            raise ValueError(f"there is no broker {broker}: the ids are 1 to {len(self.brokers)}")

    def _runs(self, broker: int) -> bool:
        self._check(broker)
        return broker in self._model.cluster.alive

    def _address(self, broker: int) -> tuple[str, int]:
        return self._model.host(broker)

    def _accepting(self, broker: int) -> Accepting:
        return lambda connection: _BrokerEnd(self, broker, connection)

    def _connections(self, broker: int) -> list[Connection]:
        """The open connections to a broker, at whichever address."""
        ends = ((each, each.requests.receiver) for each in self._network.connections)
        return [each for each, end in ends if isinstance(end, _BrokerEnd) and end.broker == broker]

    def _cut(self, broker: int) -> None:
        for connection in self._connections(broker):
            connection.cut()

    @property
    def _now(self) -> float:
        """The time of Unix, in seconds."""
        return EPOCH + self._agenda.now

    def _change(self, change: Callable[..., None], *arguments: Any, **options: Any) -> None:
        """Call a method of the model that takes the time last, and do what follows from it."""
        change(*arguments, self._now, **options)
        self._moved_on()

    def _moved_on(self) -> None:
        """Let the model do what is due, and wake it when there is more to do."""
        moment = self._model.tick(self._now)
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if moment is not None:
            pause = max(moment - self._now, LEAST_PAUSE)
            self._next = self._agenda.call_later(pause, self._due)

    def _due(self) -> None:
        self._next = None
        self._moved_on()


def _committed(partition: Partition) -> Iterator[ConsumerRecord]:
    timestamp_type = partition.config["message.timestamp.type"]
    end = partition.last_stable_offset
    for stored in partition.log.records():
        if stored.visible and stored.offset < end:
            place = *partition.where, stored.offset
            data = stored.key, stored.value, stored.headers
            yield ConsumerRecord(*place, stored.timestamp_ms, timestamp_type, *data)


class _BrokerEnd:
    """A broker's end of a connection."""

    def __init__(self, cluster: SimulatedCluster, broker: int, connection: Connection) -> None:
        self.broker = broker
        self._cluster = cluster
        self._responses = connection.responses
        self._model = cluster._model.connect(
            broker, connection.responses.put, self._close, cluster._now
        )

    def arrived(self, data: bytes) -> None:
        """Bytes of requests."""
        self._model.receive(data, self._cluster._now)
        self._cluster._moved_on()

    def ended(self, error: OSError | None) -> None:
        """The client has ended the connection, or the network has."""
        self._model.lost(self._cluster._now)
        self._responses.close(error)
        self._cluster._moved_on()

    def _close(self) -> None:
        self._responses.close(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))


T = TypeVar("T")

LATENCY: Final = 0.0005, 0.005
"""Seconds that bytes are under way, if a life says nothing else."""
_SUFFIX: Final = ".simulated"


class SimulatedWorld:
    """A simulated world, created by :func:`simulate`."""

    def __init__(
        self,
        seed: int,
        brokers: int = 3,
        *,
        timers_first: bool = False,
        options: ClusterOptions | None = None,
    ) -> None:
        self.seed: int = seed
        """The number that decides everything random in the run."""
        self.random: Random = self._drawn_from("life")
        """A random number generator for your test, such as for the time of a fault."""
        self._loop = SimulatedLoop(timers_first=timers_first)
        self._network = SimulatedNetwork(self._loop)
        self.cluster: SimulatedCluster = SimulatedCluster(
            brokers, self._network, self._loop.outside, self._drawn_from("cluster"), options
        )
        """The Kafka cluster, and its faults."""
        self._clients = count()

    @property
    def now(self) -> float:
        """Seconds since the start, on the virtual clock."""
        return self._loop.time() - BEGIN

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function ``seconds`` after the start, whatever the application is doing then.

        ::

            world.at(2.5, partial(world.cluster.crash, 1))
        """
        self._loop.outside.call_at(BEGIN + seconds, call)

    def freeze(self, seconds: float) -> None:
        """Freeze the application, like SIGSTOP or a sleeping laptop. Network and brokers continue.

        In a coroutine this blocks the event loop, like a blocking call.
        """
        self._loop.pass_time(seconds)

    # --- for simulate() --------------------------------------------------------------------

    def _drawn_from(self, name: str) -> Random:
        """A generator of random numbers, always the same for a seed and a name."""
        return Random(f"{self.seed} {name}")

    def _run(self, life: Coroutine[Any, Any, T], timeout: float = inf) -> T:
        """Run a life to its end, once."""
        with use_environment(self._environment()):
            return self._loop.run(life, timeout)

    def _environment(self) -> Environment:
        """The environment of the clients that live in this world."""
        return Environment(
            clock=self._loop.time,
            real_clock=self._loop.time,
            wall_clock_ns=lambda: round((EPOCH + self._loop.time()) * 1e9),
            random=lambda: self._drawn_from(f"client {next(self._clients)}"),
            network=partial(_network_client, self._loop),
            resolve=_resolve,
            load=_load,
        )


def _network_client(loop: SimulatedLoop, settings: ClientSettings, *given: Any) -> NetworkClient:
    """A client of the simulated brokers."""
    if asyncio._get_running_loop() is not loop:
        raise IllegalStateError(
            "a simulated world has one event loop and no threads: a blocking Producer can't be "
            "simulated"
        )
    return NetworkClient(settings, *given)


async def _load(loads: Iterable[Load]) -> None:
    """Import at once: what another world has imported makes no difference to this one."""
    load_here(loads)


async def _resolve(host: str, port: int) -> list[tuple[str, int]]:
    if not host.endswith(_SUFFIX):
        raise BrokerConnectionError(
            f"the name {host!r} can't be resolved in a simulated world: use "
            "world.cluster.bootstrap_servers"
        )
    return [(host, port)]


def simulate(
    life: Callable[[SimulatedWorld], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    brokers: int = 3,
    topics: Mapping[str, int] | None = None,
    timeout: float = 3600.0,
) -> T:
    """Run a coroutine function in a simulated world, and return its result.

    ::

        def test_an_order_survives_a_crash():
            async def life(world):
                servers = world.cluster.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    order = producer.send("orders", b"one espresso")
                    world.cluster.crash(1)
                    await asyncio.sleep(60)
                    await order
                assert world.cluster.records("orders").values == [b"one espresso"]

            simulate(life, seed=7, topics={"orders": 6})

    The world has an event loop in virtual time (``asyncio.sleep(60)`` takes no real time), a
    network, and the cluster :attr:`SimulatedWorld.cluster`. Every :class:`~aioproducer.Producer`,
    :class:`~aioproducer.reader.Reader`, :class:`~aioproducer.consumer.Consumer` and
    :class:`~aioproducer.admin.Admin` that you create in the coroutine function belongs to the
    world.

    ``seed`` decides all random numbers, including those of the module :mod:`random`: the same seed
    repeats the same run. ``topics``: names and numbers of partitions. ``timeout``: seconds of
    virtual time.

    Tasks that are still running at the end are cancelled, as in :func:`asyncio.run`. An exception
    of the coroutine is raised here, with a note that shows the seed.

    Raises:
        DeadlockError: the coroutine waits for something that will never happen.
        TimeoutError: the run takes longer than ``timeout``, or more than 2 million callbacks of the
            event loop.
        RuntimeError: an event loop is already running in this thread.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("simulate() can't be called while an event loop runs in this thread")
    world = SimulatedWorld(seed, brokers)
    world.cluster.set_latency(*LATENCY)
    for name, partitions in (topics or {}).items():
        world.cluster.create_topic(name, partitions)
    state = random.getstate()
    random.seed(seed)
    try:
        return world._run(life(world), timeout)
    except BaseException as error:
        error.add_note(f"simulated with seed={seed}: the same seed repeats this run")
        raise
    finally:
        random.setstate(state)
