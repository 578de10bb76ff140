"""The producer below its futures, beside brokers that check sequence numbers as Kafka does.

Real are the accumulator, the identity, the outcomes, the completer, the metadata and the sender,
whose coroutine is stepped by hand: it runs one round, up to where it would sleep. There is no event
loop and no socket: requests wait in a played network until a rule lets a broker take them, lets an
answer arrive, or breaks the connection at any point between.

``AIOPRODUCER_EXAMPLES`` and ``AIOPRODUCER_LIVES`` say how many schedules each machine gets.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from struct import Struct
from typing import Any

import pytest
from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioproducer.engine.accumulator import SerializedRecord
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.errors import (
    BrokerConnectionError,
    BufferExhaustedError,
    ProducerClosedError,
    ProducerError,
)
from aioproducer.model import Node, NodeId
from tests.support.fake_network import FakeNetwork
from tests.support.responses import metadata_response
from tests.support.tokens import Token
from tests.support.world import World

EXAMPLES = int(os.environ.get("AIOPRODUCER_EXAMPLES", "50"))
TOPIC, PARTITIONS = "orders", 2
PRODUCED = response_schema(Api.PRODUCE)
IDENTITY: Any = response_schema(Api.INIT_PRODUCER_ID).InitProducerIdResponse
NODES = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
BATCH, MEMORY, PENDING = 300, 12 * 300, 900
TOO_LARGE_FROM = 200
"""Bytes of a batch that the brokers refuse, where they do."""
IN_FLIGHT = 5
REMEMBERED = 5
"""The batches of a producer that a broker knows again."""
RETRY_BACKOFF = 0.1
FOREVER = 1e9
DELIVERY = 20.0

UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, TOO_LARGE, COORDINATOR_LOADING = 3, 6, 7, 10, 14
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_AFTER_APPEND, UNAUTHORIZED = 19, 20, 29
OUT_OF_ORDER, INVALID_EPOCH, UNKNOWN_PRODUCER, INVALID_RECORD = 45, 47, 59, 87
REFUSED = [NOT_ENOUGH_REPLICAS, NOT_LEADER, UNKNOWN_TOPIC]
"""Passing errors of a broker that has written nothing."""
DOUBTFUL = [NOT_ENOUGH_AFTER_APPEND, TIMED_OUT]
"""Passing errors of a broker that may have written."""
FATAL = [UNAUTHORIZED, INVALID_RECORD]

# producer id and epoch, first sequence, count; behind base offset to maximum timestamp
_NUMBERS = Struct(">qhii")
_NUMBERS_AT = 43


# --- the brokers ---------------------------------------------------------------------------


@dataclass
class KnownProducer:
    """What a partition remembers of a producer. Source: Kafka's ``ProducerStateEntry``."""

    epoch: int
    next_sequence: int = 0
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """First sequence, count and offset of the last ones."""


class PartitionLog:
    """A log, and the producers that wrote into it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.leader_epoch = 0
        self.log: list[int] = []
        self.written_as: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        """By record: producer id, epoch and sequence under which it was appended."""
        self.producers: dict[int, KnownProducer] = {}
        self.forgot = False
        """It has lost its memory of the producers once."""
        self.fenced = False
        """It has taken the producers for others that were replaced, once."""
        self.out_of_order: set[int] = set()
        """The records that were refused because their numbers were not the next."""

    def append(self, data: bytes, *, old: bool) -> tuple[int, int]:
        """Error code and base offset. Source: Kafka's ``ProducerAppendInfo``.

        ``old``: as before Kafka 2.5, an unknown producer may only begin with sequence 0.
        """
        producer_id, epoch, first, count = _NUMBERS.unpack_from(data, _NUMBERS_AT)
        known = self.producers.get(producer_id)
        if known is None:
            if first and old:
                return UNKNOWN_PRODUCER, -1
            known = KnownProducer(epoch, first)
        elif epoch < known.epoch:
            return INVALID_EPOCH, -1
        elif epoch > known.epoch:
            if first:
                return OUT_OF_ORDER, -1
            known = KnownProducer(epoch)
        for earlier, length, offset in known.batches:
            if (earlier, length) == (first, count):
                return 0, offset
        if first != known.next_sequence:
            self.out_of_order |= set(records_of(data))
            return OUT_OF_ORDER, -1
        self.producers[producer_id] = known
        offset = len(self.log)
        known.next_sequence = first + count
        known.batches.append((first, count, offset))
        for number in records_of(data):
            self.log.append(number)
            self.written_as[number].append((producer_id, epoch, first))
        return 0, offset


def records_of(data: bytes) -> list[int]:
    """The numbers of the records in a batch, as another client reads them."""
    batch = MemoryRecords(data).next_batch()
    assert batch is not None
    assert batch.validate_crc()
    return [int(bytes(record.value or b"").split()[0]) for record in batch]


@dataclass
class InFlight:
    """A request on a connection, with what was written into the socket."""

    request: Any
    data: list[tuple[int, bytes]]
    """Partition and batch."""
    response: Any = None
    """What the broker answered, once it has taken the request."""


class ConnectedBrokers(FakeNetwork):
    """One connection for each node, with requests in order."""

    def __init__(self, metrics: ProducerMetrics, wake: Callable[[], None]) -> None:
        super().__init__(metrics, wake)
        self.limit = IN_FLIGHT
        self.streams: dict[int, deque[InFlight]] = {node: deque() for node in NODES}

    def in_flight_count(self, node: NodeId) -> int:
        return len(self.streams[int(node)])

    def is_producing(self, node: NodeId) -> bool:
        return any(isinstance(each.request, ProduceRequest) for each in self.streams[int(node)])

    def is_producing_anywhere(self) -> bool:
        return any(map(self.is_producing, self.streams))

    def send(self, node: NodeId, request: Any, now: float) -> None:
        assert self.can_send(node, 0.0)
        data: list[tuple[int, bytes]] = []
        if isinstance(request, ProduceRequest):
            data = [
                (batch.topic_partition.partition, bytes(data)) for batch, data in request.batches
            ]
            assert len({partition for partition, _ in data}) == len(data)
        self.streams[int(node)].append(InFlight(request, data))


class Pause:
    """Suspends a coroutine that is stepped by hand."""

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Rounds(Wakeup):
    """In place of the sender's Wakeup: each sleep is the end of a round."""

    async def wait(self, deadline: float | None, late_at: float | None = None) -> float:
        self.clock.limit = math.inf  # no time is left out
        await Pause()
        return self.clock()

    def wake(self, now: float | None = None) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        raise error

    def close(self) -> None:
        pass


# --- the machine ---------------------------------------------------------------------------


class DeliveryMachine(RuleBasedStateMachine):
    """Everything that passes may happen; nothing may come of it but order and exactly one copy."""

    delivery_timeout = FOREVER
    max_block = FOREVER
    batch_size = BATCH
    most_doublings = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.old = False
        self.too_large_from = 10**9
        self.partitions = [PartitionLog(1 + number % len(NODES)) for number in range(PARTITIONS)]
        self.late: list[deque[tuple[int, InFlight]]] = []
        """By connection that broke: what its broker may still read."""
        self.producer_ids = 0
        self.tokens: list[Token] = []
        self.build()

    def build(self) -> None:
        world = World(
            now=self.now,
            idempotent=True,
            retries=2**31 - 1,
            bootstrap=(),
            max_idle=FOREVER,
            random=lambda: Random(1),
            network=ConnectedBrokers,
            wakeup=lambda _clock: Rounds(lambda: self.now),
            make_future=lambda: None,
            memory=MEMORY,
            pending_memory=PENDING,
            kept_memory=4 * BATCH,
            batch_size=self.batch_size,
            most_doublings=self.most_doublings,
            max_request_size=1_500,
            linger=None,
            delivery_timeout=self.delivery_timeout,
            max_block=self.max_block,
            adaptive_partitioning=True,
        )
        assert isinstance(world.network, ConnectedBrokers)
        self.network = world.network
        self.metadata = world.metadata
        list(self.metadata.update(MetadataNews(NODES), Asked(frozenset(), full=False), 0.0))
        self.accumulator = world.accumulator
        self.batches, self.pending = world.batches, world.pending
        self.pool, self.pending_memory = world.pool, world.pending_memory
        self.sender, self.completer = world.sender, world.completer
        self.wake = world.wakeup.wake
        self.clock = world.wakeup.clock
        """The producer's clock: a round that comes late stops it, as a stopped process does."""
        self.life = self.sender.run()

    # --- what the producer does ------------------------------------------------------------

    @initialize(old=st.booleans(), too_large=st.booleans(), know=st.booleans())
    def begin(self, old: bool, too_large: bool, know: bool) -> None:
        """``know``: the producer has its id and the topic's metadata, and each log a record."""
        self.old = old
        if know:
            for partition in range(PARTITIONS):
                self.send_one(partition, 1)
            self.settle_all()
        if too_large:
            self.too_large_from = TOO_LARGE_FROM

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        size=st.sampled_from([1, 1, 40, 150]),
        times=st.sampled_from([1, 1, 3, 8]),
    )
    def send(self, partition: int, size: int, times: int) -> None:
        for _ in range(times):
            self.send_one(partition, size)

    def send_one(self, partition: int, size: int) -> Token | None:
        """What ``Producer.send`` does; None: the line is full."""
        token = Token(len(self.tokens), partition)
        value = b"%d " % token.number + bytes(size)
        accumulator, now = self.accumulator, self.clock()
        record = SerializedRecord(TOPIC, partition, 1, None, value, (), token)
        if not accumulator.append(record, now):
            try:
                accumulator.enqueue(record, now)
            except BufferExhaustedError:
                return None
            self.metadata.use(TOPIC, now)
        self.tokens.append(token)
        return token

    @rule()
    def round(self) -> None:
        """The sender does what there is to do; it may take turns of the loop to read before."""
        while not isinstance(self.life.send(None), Pause):
            pass

    @rule(seconds=st.sampled_from([0.01, 0.2, 1.5]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.tokens)
    @rule(pick=st.integers(1, 12))
    def somebody_cancels(self, pick: int) -> None:
        token = self.tokens[-(pick % len(self.tokens))]
        if not token.done():
            token.cancelled = True

    # --- what brokers and the network do ---------------------------------------------------

    def on_connection(self, node: int, *, taken: bool) -> InFlight | None:
        """The first request of ``node`` that its broker has taken, or has not."""
        for each in self.network.streams[node]:
            if (each.response is not None) is taken:
                return each
        return None

    @precondition(lambda self: any(self.on_connection(node, taken=False) for node in NODES))
    @rule(node=st.sampled_from(sorted(NODES)), code=st.sampled_from([0, 0, 0, *REFUSED]))
    def a_broker_takes_a_request(self, node: int, code: int) -> None:
        """``code``: it refuses; else it writes what is in order."""
        self.take(node, code)

    @precondition(lambda self: any(self.on_connection(node, taken=False) for node in NODES))
    @rule(node=st.sampled_from(sorted(NODES)), code=st.sampled_from(DOUBTFUL))
    def a_broker_writes_and_complains(self, node: int, code: int) -> None:
        self.take(node, code, writes=True)

    def take(self, node: int, code: int, *, writes: bool = False) -> None:
        flying = self.on_connection(node, taken=False)
        if flying is not None:
            flying.response = self.respond(node, flying, code, writes)

    @precondition(lambda self: any(self.on_connection(node, taken=True) for node in NODES))
    @rule(node=st.sampled_from(sorted(NODES)))
    def an_answer_arrives(self, node: int) -> None:
        """Answers come in the order of the requests. Each is settled at once, between rounds."""
        connection = self.network.streams[node]
        if connection and connection[0].response is not None:
            flying = connection.popleft()
            self.network.completed.append(
                Completion(flying.request, node, flying.request.read(flying.response), None, 0.0)
            )
            self.network.responded(self.clock())

    @precondition(lambda self: any(self.network.streams.values()))
    @rule(node=st.sampled_from(sorted(NODES)))
    def a_connection_breaks(self, node: int) -> None:
        """What its broker has not taken is lost, and so are the answers."""
        self.cut(node)

    def cut(self, node: int) -> list[InFlight]:
        connection = self.network.streams[node]
        error = BrokerConnectionError(f"the connection to {node} broke")
        lost = list(connection)
        connection.clear()
        self.network.completed += [
            Completion(each.request, node, None, error, 0.0) for each in lost
        ]
        self.wake()
        return [each for each in lost if each.response is None]

    @rule(node=st.sampled_from(sorted(NODES)))
    def a_broker_is_away_or_back(self, node: int) -> None:
        self.network.unreachable ^= {node}
        self.wake()
        if node in self.network.unreachable:
            self.cut(node)

    @rule(partition=st.integers(0, PARTITIONS - 1), leader=st.sampled_from(sorted(NODES)))
    def a_leader_is_elected(self, partition: int, leader: int) -> None:
        self.partitions[partition].leader = leader
        self.partitions[partition].leader_epoch += 1

    # --- what brokers answer ---------------------------------------------------------------

    def respond(self, node: int, flying: InFlight, code: int, writes: bool) -> Any:
        match flying.request:
            case ProduceRequest():
                return self.produce(node, flying, code, writes)
            case MetadataRequest():
                return self.describe()
            case InitProducerIdRequest():
                if code:
                    return IDENTITY(error_code=COORDINATOR_LOADING)
                self.producer_ids += 1
                return IDENTITY(producer_id=self.producer_ids, producer_epoch=0)
        raise AssertionError(flying.request)

    def produce(self, node: int, flying: InFlight, code: int, writes: bool) -> Any:
        results = []
        for number, data in flying.data:
            partition = self.partitions[number]
            error, offset = code, -1
            if partition.leader != node:
                error = NOT_LEADER
            elif (
                len(data) >= self.too_large_from and _NUMBERS.unpack_from(data, _NUMBERS_AT)[3] > 1
            ):
                error = TOO_LARGE
            elif writes or not code:
                error, offset = partition.append(data, old=self.old)
                error = error or code
            results.append(
                PRODUCED.PartitionProduceResponse(
                    index=number, error_code=error, base_offset=-1 if error else offset
                )
            )
        topic = PRODUCED.TopicProduceResponse(name=TOPIC, partition_responses=results)
        return PRODUCED.ProduceResponse(responses=[topic])

    def describe(self) -> Any:
        leaders = [partition.leader for partition in self.partitions]
        epochs = [partition.leader_epoch for partition in self.partitions]
        return metadata_response(TOPIC, leaders, 0, NODES, epochs)

    # --- what always holds -----------------------------------------------------------------

    @invariant()
    def acknowledged_is_in_the_log(self) -> None:
        for token in self.tokens:
            if token.metadata is not None and token.metadata.offset >= 0:
                log = self.partitions[token.partition].log
                assert log[token.metadata.offset] == token.number

    @invariant()
    def logs_are_in_the_order_of_the_sends(self) -> None:
        for partition in self.partitions:
            log = [number for number in partition.log if self.keeps_its_place(number)]
            assert log == sorted(set(log)), partition.written_as

    def keeps_its_place(self, number: int) -> bool:
        """Whether order and exactly one copy are promised for a record of a log."""
        return True

    @invariant()
    def nothing_fails(self) -> None:
        assert not [token for token in self.tokens if token.error is not None]

    @invariant()
    def every_byte_is_accounted_for(self) -> None:
        held = sum(len(batch.buffer or b"") for batch in self.batches)
        futures = sum(batch.futures for batch in self.batches)
        assert self.accumulator.memory_quota.futures.used == futures
        borrowed = MEMORY - held - self.pool.available
        assert borrowed >= max(0, self.pending_memory.quota.used - PENDING) or len(self.pending) < 2
        assert self.pending or not borrowed

    # --- the end ---------------------------------------------------------------------------

    def settle_all(self) -> None:
        """No more trouble: everything gets its fate, within a bound."""
        self.network.unreachable.clear()
        self.wake()
        for _ in range(len(self.tokens) * 8 + 120):
            if self.accumulator.is_empty:
                return
            self.round()
            for node in NODES:
                while self.network.streams[node]:
                    if self.network.streams[node][0].response is None:
                        self.take(node, 0)
                    self.an_answer_arrives(node)
            self.now += 0.5
        raise AssertionError(f"no fate: {list(self.batches)}, {list(self.pending)}")

    def teardown(self) -> None:
        self.bring_home_the_answers()
        patient = self.give_time()
        self.settle_all()
        assert not [each for each in patient if each.error and self.has_a_chance(each)]
        self.let_late_requests_be_read()
        more = [self.send_one(partition, 1) for partition in range(PARTITIONS)]
        self.settle_all()
        assert all(token is not None and token.metadata is not None for token in more)
        self.logs_are_in_the_order_of_the_sends()
        self.check_fates()
        assert self.pool.available == MEMORY
        assert self.pending_memory.quota.used == 0
        self.check_identity()
        self.accumulator.close()
        with pytest.raises(StopIteration):
            self.round()

    def bring_home_the_answers(self) -> None:
        """Those that brokers have given already, and what follows from them."""
        for node in NODES:
            while (first := next(iter(self.network.streams[node]), None)) and first.response:
                self.an_answer_arrives(node)
        self.round()

    def give_time(self) -> list[Token]:
        """Nothing expires any more; the records that have no fate yet."""
        for batch in self.batches:
            batch.deadline = FOREVER
        for record in self.pending:
            record.sent = record.deadline = FOREVER
        return [token for token in self.tokens if not token.done()]

    def has_a_chance(self, token: Token) -> bool:
        """Whether a record is to be delivered once nothing goes wrong any more."""
        return True

    def let_late_requests_be_read(self) -> None:
        for connection in self.late:
            for node, flying in connection:
                self.respond(node, flying, 0, False)
        self.late.clear()

    def check_fates(self) -> None:
        copies = Counter(number for partition in self.partitions for number in partition.log)
        for token in self.tokens:
            assert token.done(), f"{token} has no fate"
            if token.metadata is not None:
                log = self.partitions[token.partition].log
                assert token.number in log
                assert token.metadata.offset < 0 or log[token.metadata.offset] == token.number
                assert copies[token.number] == 1 or not self.keeps_its_place(token.number)
            elif token.error is not None:
                assert isinstance(token.error, ProducerError)
                written = copies[token.number] and self.is_refused_for_sure(token)
                assert token.error.may_have_been_written or not written
            assert copies[token.number] <= 1 or not self.keeps_its_place(token.number)

    def is_refused_for_sure(self, token: Token) -> bool:
        """Whether a record that "was not written" is promised not to be in the log."""
        return True

    def check_identity(self) -> None:
        """What passes costs no producer id."""
        written = [each for partition in self.partitions for each in partition.written_as.values()]
        assert len({producer_id for ways in written for producer_id, *_ in ways}) == 1


class FailureMachine(DeliveryMachine):
    """Records are refused for good, or their time is over."""

    delivery_timeout = DELIVERY
    max_block = DELIVERY / 4

    def nothing_fails(self) -> None:
        """Not so here."""

    @rule(seconds=st.sampled_from([4.0, 11.0]))
    def much_time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: any(self.on_connection(node, taken=False) for node in NODES))
    @rule(node=st.sampled_from(sorted(NODES)), code=st.sampled_from(FATAL))
    def a_broker_refuses_for_good(self, node: int, code: int) -> None:
        self.take(node, code)

    def has_a_chance(self, token: Token) -> bool:
        """A record that may have been written is failed rather than written twice."""
        return not (isinstance(token.error, ProducerError) and token.error.may_have_been_written)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_broker_is_restarted(self, partition: int) -> None:
        """Then it knows the last batch of a producer alone."""
        for known in self.partitions[partition].producers.values():
            while len(known.batches) > 1:
                known.batches.popleft()

    @rule()
    def the_limit_of_batches_changes(self) -> None:
        self.too_large_from = 10**9 if self.too_large_from == TOO_LARGE_FROM else TOO_LARGE_FROM

    def check_identity(self) -> None:
        """A new one follows a failed batch."""


class ForgetfulMachine(FailureMachine):
    """Brokers forget the producer as well, or take it for one that was replaced.

    A partition that has forgotten takes any batch for new, so there no producer can promise order
    or exactly one copy; all else still holds.
    """

    surprises = 0

    def teardown(self) -> None:
        """A batch that comes to such a partition may fail, and then the next one does not."""
        self.settle_all()
        for _ in range(self.surprises):
            for partition in range(PARTITIONS):
                self.send_one(partition, 1)
            self.settle_all()
        super().teardown()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_broker_forgets_producers(self, partition: int) -> None:
        self.surprises += 1
        self.partitions[partition].producers.clear()
        self.partitions[partition].forgot = True

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def a_broker_fences_producers(self, partition: int) -> None:
        self.surprises += 1
        for known in self.partitions[partition].producers.values():
            known.epoch += 1
            known.next_sequence = 0
            known.batches.clear()
        self.partitions[partition].fenced = True

    def has_a_chance(self, token: Token) -> bool:
        """A record that may have been written is failed rather than written twice."""
        partition = self.partitions[token.partition]
        return not (partition.forgot or partition.fenced)

    def keeps_its_place(self, number: int) -> bool:
        return not self.partitions[self.tokens[number].partition].forgot

    def is_refused_for_sure(self, token: Token) -> bool:
        """OUT_OF_ORDER_SEQUENCE_NUMBER counts as "not written", also from one that has forgotten.

        Batch 1 is written and not answered, the broker forgets, takes the later batch 2 for a
        beginning, and refuses 1 when it comes again, which is in the log; and with it what follows.
        """
        return not self.partitions[token.partition].forgot


class LateMachine(FailureMachine):
    """What a broken connection had carried may be read later, beside what came after it.

    A new epoch fences the one before it only once its first batch has come. So there is no promise
    for a record that was not acknowledged, nor for one that got new numbers after another batch had
    failed.
    """

    @precondition(lambda self: any(self.network.streams.values()))
    @rule(node=st.sampled_from(sorted(NODES)))
    def a_connection_breaks_but_its_requests_arrive(self, node: int) -> None:
        unread = deque((node, each) for each in self.cut(node))
        if unread:
            self.late.append(unread)

    @precondition(lambda self: self.late)
    @rule(pick=st.integers(0, 9))
    def a_late_request_is_read(self, pick: int) -> None:
        connection = self.late[pick % len(self.late)]
        node, flying = connection.popleft()
        self.respond(node, flying, 0, False)
        self.late = [each for each in self.late if each]

    def keeps_its_place(self, number: int) -> bool:
        token = self.tokens[number]
        return token.metadata is not None and len(set(self.numbers_of(token))) == 1

    def numbers_of(self, token: Token) -> list[tuple[int, int, int]]:
        return self.partitions[token.partition].written_as[token.number]

    def is_refused_for_sure(self, token: Token) -> bool:
        """It is not, if it was refused as out of order before an earlier request of it was read."""
        return token.number not in self.partitions[token.partition].out_of_order


class ClosedMachine(FailureMachine):
    """The producer is closed before everything has its fate."""

    def teardown(self) -> None:
        self.completer.abort(ProducerClosedError("closed"), self.now)
        for node in NODES:
            while self.on_connection(node, taken=False):
                self.take(node, 0)
        self.check_fates()
        self.logs_are_in_the_order_of_the_sends()
        assert not self.batches
        assert not self.pending
        self.life.close()


class GrowingMachine(FailureMachine):
    """Batches grow while they fill, and topics get limits by the brokers' refusals."""

    batch_size = BATCH // 4
    most_doublings = 2


common = settings(
    max_examples=EXAMPLES,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestDelivery = DeliveryMachine.TestCase
TestDelivery.settings = common
TestFailures = FailureMachine.TestCase
TestFailures.settings = common
TestForgetful = ForgetfulMachine.TestCase
TestForgetful.settings = common
TestLate = LateMachine.TestCase
TestLate.settings = common
TestClosed = ClosedMachine.TestCase
TestClosed.settings = common
TestGrowing = GrowingMachine.TestCase
TestGrowing.settings = common


def step(machine: DeliveryMachine, random: Random) -> None:
    """One event, the usual ones most often."""
    node = random.choice(sorted(NODES))
    partition = random.randrange(PARTITIONS)
    chance = random.random()
    if chance < 0.16:
        machine.send(partition, random.choice([1, 1, 40, 150]), random.choice([1, 1, 3, 8]))
    elif chance < 0.40:
        machine.round()
    elif chance < 0.58:
        machine.take(node, random.choice([0] * 9 + REFUSED))
    elif chance < 0.76:
        machine.an_answer_arrives(node)
    elif chance < 0.80:
        machine.take(node, random.choice(DOUBTFUL), writes=True)
    elif chance < 0.84:
        machine.a_connection_breaks(node)
    elif chance < 0.86:
        machine.a_broker_is_away_or_back(node)
    elif chance < 0.88:
        machine.a_leader_is_elected(partition, node)
    elif chance < 0.90:
        machine.somebody_cancels(random.randint(1, 12)) if machine.tokens else None
    elif chance < 0.96 or not isinstance(machine, FailureMachine):
        machine.time_passes(random.choice([0.01, 0.2, 1.5]))
    else:
        fail(machine, random, node, partition)


def fail(machine: FailureMachine, random: Random, node: int, partition: int) -> None:
    chance = random.random()
    if chance < 0.3:
        machine.much_time_passes(random.choice([4.0, 11.0]))
    elif chance < 0.5:
        machine.take(node, random.choice(FATAL))
    elif chance < 0.55:
        machine.a_broker_is_restarted(partition)
    elif chance < 0.6:
        machine.the_limit_of_batches_changes()
    elif isinstance(machine, ForgetfulMachine):
        if chance < 0.8:
            machine.a_broker_forgets_producers(partition)
        else:
            machine.a_broker_fences_producers(partition)
    elif isinstance(machine, LateMachine):
        if chance < 0.8:
            machine.a_connection_breaks_but_its_requests_arrive(node)
        elif machine.late:
            machine.a_late_request_is_read(random.randint(0, 9))


LIVES = int(os.environ.get("AIOPRODUCER_LIVES", "30"))
MACHINES = [
    DeliveryMachine,
    FailureMachine,
    ForgetfulMachine,
    LateMachine,
    ClosedMachine,
    GrowingMachine,
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(LIVES))
def test_a_long_life(machine: type[DeliveryMachine], seed: int) -> None:
    """More events than hypothesis would try, without shrinking."""
    print(f"{seed=}")
    random, life = Random(seed), machine()
    life.begin(random.random() < 0.5, random.random() < 0.5, random.random() < 0.8)
    for _ in range(200):
        step(life, random)
        life.acknowledged_is_in_the_log()
        life.logs_are_in_the_order_of_the_sends()
        life.nothing_fails()
        life.every_byte_is_accounted_for()
    life.teardown()
