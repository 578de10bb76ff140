"""The transaction manager beside a coordinator that is written from Kafka's, with trouble between.

Real are the manager, its table and the identity. The sender is played: batches wait until they are
admitted, and get their outcomes in any order; requests go out one at a time. Requests and answers
are lost, coordinators move, take their time and give up transactions, other producers come.

Not played, for nothing can help there: requests of version 1 that are read after their repetition.
They carry the epoch of the next transaction (that is why there is a version 2).

``AIOPRODUCER_EXAMPLES`` says how many schedules are tried.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioproducer.engine.transactions.manager import TransactionManager
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    Response,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.engine.transactions.transaction import Ending, PendingOffsets, TransactionState
from aioproducer.errors import BrokerConnectionError, DeliveryTimeoutError, kafka_error
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from tests.unit.transactions.coordinator import (
    CONCURRENT,
    EXHAUSTED,
    State,
    TransactionCoordinator,
    Write,
)

EXAMPLES = int(os.environ.get("AIOPRODUCER_EXAMPLES", "50"))
S = TransactionState
PARTITIONS = [TopicPartition("orders", number) for number in range(2)]
GROUPS = ["readers", "others"]
NODES = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
LOADING, NOT_COORDINATOR = 14, 16
REFUSED = 29


@dataclass(eq=False)
class Batch:
    write: Write
    place: TopicPartition
    handle: TransactionHandle | None = None
    """Under which it was numbered."""
    code: int | None = None
    """What its broker has answered."""


@dataclass(eq=False)
class Asked:
    request: CoordinatorRequest
    handle: TransactionHandle
    node: int | None
    answer: Response | None = None


@dataclass
class Transaction:
    """One that the user has begun."""

    number: int
    delivered: list[Write] = field(default_factory=list)
    lost: list[Write] = field(default_factory=list)
    ending: Ending | None = None


class TransactionMachine(RuleBasedStateMachine):
    """Everything that may happen to a producer that is alone; nothing may come of it but truth."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = SequenceNumbers(idempotent=True, transactional=True)
        self.manager = TransactionManager("payments", self.identity, 60_000)
        self.coordinator = TransactionCoordinator()
        self.home = 1
        """The node where it is."""
        self.transactions: list[Transaction] = []
        self.queued: list[Batch] = []
        self.flying: list[Batch] = []
        self.late: list[Batch | Asked] = []
        """Requests that were given up, and may be read all the same."""
        self.asked: Asked | None = None
        self.offsets: dict[int, tuple[PendingOffsets, Write]] = {}
        self.told: list[tuple[int, int]] = []
        """The identities that the manager was given."""
        self.writes = 0
        self.fenced = False
        """Somebody else has taken its epoch."""
        self.ended_elsewhere = False
        """Another holder of the handle has ended the transaction."""

    @initialize(version=st.sampled_from([1, 2]), epoch=st.sampled_from([-1, 5, EXHAUSTED - 3]))
    def begin_life(self, version: int, epoch: int) -> None:
        self.coordinator.epoch = epoch
        self.manager.offered_version = version
        self.manager.initialize()

    # --- what users do -------------------------------------------------------------------------

    @property
    def current(self) -> Transaction:
        return self.transactions[-1]

    @property
    def settled(self) -> bool:
        return not self.queued and not self.flying

    def can_write(self) -> bool:
        return self.manager.state is S.IN_TRANSACTION and not self.ended_elsewhere

    @precondition(lambda self: self.manager.state is S.READY)
    @rule(shared=st.sampled_from([False, False, False, True]))
    def begin(self, shared: bool) -> None:
        if self.manager.begin(shared=shared):
            if shared:
                self.manager.hand_out()
            self.transactions.append(Transaction(len(self.transactions)))
            self.ended_elsewhere = False

    @precondition(can_write)
    @rule(place=st.sampled_from(PARTITIONS), times=st.sampled_from([1, 1, 3]))
    def send(self, place: TopicPartition, times: int) -> None:
        for _ in range(times):
            self.queued.append(Batch(self.new_write(), place))

    def new_write(self) -> Write:
        self.writes += 1
        return Write(self.current.number, self.writes)

    @precondition(can_write)
    @rule(group=st.sampled_from(GROUPS))
    def send_offsets(self, group: str) -> None:
        offsets = {TopicPartition("events", 0): OffsetAndMetadata(7)}
        pending = self.manager.add_offsets(offsets, ConsumerGroupMetadata(group), {})
        self.offsets[id(pending.request)] = (pending, self.new_write())

    @precondition(lambda self: self.manager.state is S.IN_TRANSACTION)
    @rule()
    def commit(self) -> None:
        self.current.ending = self.manager.commit()

    @precondition(lambda self: self.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR))
    @rule()
    def abort(self) -> None:
        self.current.ending = self.manager.abort()

    # --- what the sender does ------------------------------------------------------------------

    @rule()
    def round(self) -> None:
        manager = self.manager
        if manager.discard_error is not None:
            for batch in self.queued:
                self.lose(batch)
            self.queued.clear()
        for batch in [each for each in self.queued if manager.add_partition(each.place)]:
            self.leave(batch)
        if self.asked is not None:
            return
        manager.complete_unknown(settled=self.settled)
        request = manager.next_request(settled=self.settled)
        if request is None:
            return
        if isinstance(request, EndTxn):
            assert self.settled
            if request.committed:
                assert not self.current.lost
                assert all(each.written for each, write in self.of_current())
        node = manager.node_for(request)
        self.asked = Asked(request, manager.handle, None if node is None else node.id)
        self.check_epoch(manager.handle)
        manager.sent(request)

    def of_current(self) -> list[tuple[PendingOffsets, Write]]:
        number = self.current.number
        return [each for each in self.offsets.values() if each[1].transaction == number]

    def leave(self, batch: Batch) -> None:
        handle, coordinator = self.manager.handle, self.coordinator
        if handle.version == 1 and self.is_current(handle) and not self.ended_elsewhere:
            assert coordinator.state is State.ONGOING
            assert batch.place in coordinator.partitions
        self.check_epoch(handle)
        batch.handle = handle
        batch.code = None
        self.queued.remove(batch)
        self.flying.append(batch)
        self.identity.stamp(batch.place, 1)

    def is_current(self, handle: TransactionHandle) -> bool:
        return (handle.producer_id, handle.epoch) == (
            self.coordinator.producer_id,
            self.coordinator.epoch,
        )

    def check_epoch(self, handle: TransactionHandle) -> None:
        if self.told:
            assert (handle.producer_id, handle.epoch) == self.told[-1]

    def lose(self, batch: Batch) -> None:
        self.transactions[batch.write.transaction].lost.append(batch.write)
        if batch.handle is not None:
            self.manager.numbers_lost()

    def fail(self, batch: Batch, error: Exception) -> None:
        assert batch.write.transaction == self.current.number
        assert isinstance(error, DeliveryTimeoutError) or hasattr(error, "code")
        self.lose(batch)
        self.manager.delivery_failed(error)  # type: ignore[arg-type]

    # --- what becomes of batches ---------------------------------------------------------------

    @precondition(lambda self: any(each.code is None for each in self.flying))
    @rule(pick=st.integers(0, 9), code=st.sampled_from([0, 0, 0, 0, 0, REFUSED]))
    def a_broker_takes_a_batch(self, pick: int, code: int) -> None:
        ahead = [each for each in self.flying if each.code is None]
        batch = ahead[pick % len(ahead)]
        assert batch.handle is not None
        batch.code = code or self.coordinator.write(batch.handle, batch.place, batch.write)

    @precondition(lambda self: any(each.code is not None for each in self.flying))
    @rule(pick=st.integers(0, 9))
    def a_broker_s_answer_comes(self, pick: int) -> None:
        answered = [each for each in self.flying if each.code is not None]
        batch = answered[pick % len(answered)]
        self.flying.remove(batch)
        if batch.code == CONCURRENT:
            self.queued.append(batch)
        elif batch.code:
            self.fail(batch, kafka_error(batch.code, "refused"))
        else:
            self.current.delivered.append(batch.write)

    @precondition(lambda self: self.flying)
    @rule(pick=st.integers(0, 9), late=st.booleans())
    def a_batch_is_sent_again(self, pick: int, late: bool) -> None:
        """For its answer, or the request, was lost; or that comes late."""
        batch = self.flying.pop(pick % len(self.flying))
        if late and batch.code is None:
            self.late.append(Batch(batch.write, batch.place, batch.handle))
        self.queued.append(batch)

    @precondition(lambda self: self.flying or self.queued)
    @rule(pick=st.integers(0, 9), late=st.booleans())
    def a_batch_s_time_is_over(self, pick: int, late: bool) -> None:
        batch = [*self.flying, *self.queued][pick % len(self.flying + self.queued)]
        if batch in self.flying:
            self.flying.remove(batch)
            if late and batch.code is None:
                self.late.append(batch)
        else:
            self.queued.remove(batch)
        self.fail(batch, DeliveryTimeoutError("not acknowledged"))

    # --- what becomes of requests -------------------------------------------------------------

    @precondition(lambda self: self.asked is not None and self.asked.answer is None)
    @rule(code=st.sampled_from([0, 0, 0, 0, LOADING, NOT_COORDINATOR, CONCURRENT]))
    def a_coordinator_takes_the_request(self, code: int) -> None:
        assert self.asked is not None
        self.take(self.asked, code)

    def take(self, asked: Asked, code: int = 0) -> None:
        request = asked.request
        if isinstance(request, FindCoordinator):
            code = LOADING if code else 0
            node = None if code else NODES[self.home]
            asked.answer = Response(code, node=node)
        elif asked.node != self.home:
            asked.answer = Response(NOT_COORDINATOR)
        else:
            asked.answer = Response(code) if code else self.carry_out(request, asked.handle)

    def carry_out(self, request: CoordinatorRequest, handle: TransactionHandle) -> Response:
        coordinator = self.coordinator
        match request:
            case InitProducerId(keep):
                kept = (handle.producer_id, handle.epoch) if keep else None
                return coordinator.assign(kept)
            case AddPartitionsToTxn(partitions):
                return Response(coordinator.add(handle, *partitions))
            case AddOffsetsToTxn(group):
                return Response(coordinator.add(handle, group))
            case TxnOffsetCommit(_, group):
                _, write = self.offsets[id(request)]
                return Response(coordinator.write(handle, group.group_id, write))
            case EndTxn(committed):
                return coordinator.end(handle, committed=committed)
        raise AssertionError(request)

    @precondition(lambda self: self.asked is not None and self.asked.answer is not None)
    @rule()
    def the_coordinator_s_answer_comes(self) -> None:
        asked, self.asked = self.asked, None
        assert asked is not None
        assert asked.answer is not None
        ending = self.manager.ending
        was_open = ending is not None and ending.open
        reaction = self.manager.handle_response(asked.request, asked.answer, f"broker {asked.node}")
        if reaction is not Reaction.DONE:
            return
        if asked.answer.producer_id >= 0:
            self.told.append((asked.answer.producer_id, asked.answer.epoch))
        if isinstance(asked.request, TxnOffsetCommit):
            pending, write = self.offsets[id(asked.request)]
            if pending.written:
                self.current.delivered.append(write)
        if isinstance(asked.request, EndTxn):
            assert was_open

    @precondition(lambda self: self.asked is not None)
    @rule(late=st.booleans())
    def a_request_or_its_response_is_lost(self, late: bool) -> None:
        """``late``: it is read when nobody waits for the answer any more."""
        asked, self.asked = self.asked, None
        assert asked is not None
        if late and asked.answer is None and asked.handle.version == 2:
            self.late.append(asked)
        self.manager.unreachable(asked.request, BrokerConnectionError("lost"))

    @precondition(lambda self: self.late)
    @rule(pick=st.integers(0, 9))
    def a_late_request_is_read(self, pick: int) -> None:
        request = self.late.pop(pick % len(self.late))
        if isinstance(request, Asked):
            self.take(request)
            return
        assert request.handle is not None
        self.coordinator.write(request.handle, request.place, request.write)

    # --- what the cluster does -----------------------------------------------------------------

    @rule()
    def the_markers_are_written(self) -> None:
        self.coordinator.complete()

    @rule(home=st.sampled_from(sorted(NODES)))
    def the_coordinator_moves(self, home: int) -> None:
        self.home = home

    @rule()
    def the_brokers_are_upgraded(self) -> None:
        self.manager.offered_version = 2

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def reports_are_true(self) -> None:
        committed, aborted = self.coordinator.committed, self.coordinator.aborted
        for each in self.transactions:
            ending = each.ending
            if ending is None or not ending.done:
                continue
            if ending.committed:
                assert not each.lost
                assert committed.issuperset(each.delivered)
                assert not [write for write in aborted if write.transaction == each.number]
            else:
                assert not [write for write in committed if write.transaction == each.number]

    @invariant()
    def no_transaction_is_part_of_another(self) -> None:
        assert len({write.transaction for write in self.coordinator.open}) <= 1

    @invariant()
    def nothing_is_committed_that_nobody_asked_to_commit(self) -> None:
        for write in self.coordinator.committed:
            ending = self.transactions[write.transaction].ending
            assert self.is_elsewhere(write.transaction) or (ending and ending.committed)

    def is_elsewhere(self, transaction: int) -> bool:
        """Whether another holder of the handle may have ended it."""
        return False

    @invariant()
    def only_who_was_fenced_is_at_the_end(self) -> None:
        assert self.fenced or self.manager.state is not S.FATAL_ERROR, self.manager.error

    # --- the end -------------------------------------------------------------------------------

    def calm(self) -> None:
        """No more trouble: the machine gets to where a user can go on."""
        for _ in range(60 + 4 * len(self.queued)):
            self.round()
            while self.flying:
                if self.flying[0].code is None:
                    batch = self.flying[0]
                    assert batch.handle is not None
                    batch.code = self.coordinator.write(batch.handle, batch.place, batch.write)
                self.a_broker_s_answer_comes(
                    [each for each in self.flying if each.code is not None].index(self.flying[0])
                )
            if self.asked is not None:
                if self.asked.answer is None:
                    self.take(self.asked)
                self.the_coordinator_s_answer_comes()
            self.coordinator.complete()
            self.check()
            busy = self.queued or self.flying or self.asked is not None
            waits = self.manager.state in (S.INITIALIZING, S.COMMITTING, S.ABORTING)
            if not busy and not waits and self.manager.next_request(settled=True) is None:
                return
        raise AssertionError(f"stuck: {self.manager.state}")

    def check(self) -> None:
        self.reports_are_true()
        self.no_transaction_is_part_of_another()
        self.nothing_is_committed_that_nobody_asked_to_commit()
        self.only_who_was_fenced_is_at_the_end()

    def teardown(self) -> None:
        self.calm()
        if self.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            self.abort()
            self.calm()
        for request in list(self.late):
            self.a_late_request_is_read(self.late.index(request))
            self.check()
        if self.manager.state is S.FATAL_ERROR:
            return
        assert self.manager.state is S.READY
        for number in range(2):
            self.begin(shared=bool(number))
            self.calm()
            if self.manager.state is S.READY:
                self.begin(shared=bool(number))
            self.send(PARTITIONS[0], 2)
            self.send_offsets(GROUPS[0])
            self.calm()
            if self.fenced:  # it may only hear of it now
                self.finish_fenced()
                return
            self.commit()
            self.calm()
            assert self.current.ending is not None
            assert self.current.ending.done
            assert len(self.current.delivered) == 3

    def finish_fenced(self) -> None:
        if self.manager.state is S.IN_TRANSACTION:
            self.commit()
            self.calm()
        if self.manager.state is S.ABORTABLE_ERROR:
            self.abort()
            self.calm()
        assert self.manager.state in (S.READY, S.FATAL_ERROR)


class DisturbedMachine(TransactionMachine):
    """Transactions take too long, other producers come, and others end what is shared."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: set[int] = set()

    @precondition(lambda self: self.coordinator.state is State.ONGOING)
    @rule()
    def a_transaction_takes_too_long(self) -> None:
        self.fenced = True
        self.coordinator.abort_from_here()
        if self.manager.handle.version == 2:
            self.coordinator.epoch += 1

    @precondition(lambda self: self.manager.state is not S.UNINITIALIZED)
    @rule()
    def another_producer_comes(self) -> None:
        self.fenced = True
        self.coordinator.assign(None)

    def idle_in_shared(self) -> bool:
        transaction = self.manager.transaction
        if not self.can_write() or transaction is None or transaction.has_pending_offsets:
            return False
        return self.settled and self.asked is None and transaction.shared and not self.late

    @precondition(idle_in_shared)
    @rule(committed=st.booleans(), writes=st.booleans())
    def somebody_ends_a_shared_transaction(self, committed: bool, writes: bool) -> None:
        """Whoever got the handle, when all have written what they had to."""
        handle = self.manager.handle
        if writes:
            self.coordinator.add(handle, PARTITIONS[1])
            self.coordinator.write(handle, PARTITIONS[1], self.new_write())
        if not self.coordinator.end(handle, committed=committed).error_code:
            self.ended_elsewhere = True
            self.elsewhere.add(self.current.number)

    def is_elsewhere(self, transaction: int) -> bool:
        return transaction in self.elsewhere


common = settings(
    max_examples=EXAMPLES,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = common
TestDisturbed = DisturbedMachine.TestCase
TestDisturbed.settings = common

LIVES = int(os.environ.get("AIOPRODUCER_LIVES", "100"))


def usual(machine: TransactionMachine, random: Random) -> None:
    """What users, sender and coordinators do when all is well, and some loss."""
    pick, chance = random.randrange(10), random.random()
    if chance < 0.03 and machine.manager.state is S.IN_TRANSACTION:
        machine.commit()
    elif chance < 0.05 and machine.manager.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
        machine.abort()
    elif chance < 0.15 and machine.manager.state is S.READY:
        machine.begin(random.random() < 0.3)
    elif chance < 0.25 and machine.can_write():
        machine.send(random.choice(PARTITIONS), random.choice([1, 1, 3]))
    elif chance < 0.29 and machine.can_write():
        machine.send_offsets(random.choice(GROUPS))
    elif chance < 0.55 and machine.asked is not None:
        if machine.asked.answer is not None:
            machine.the_coordinator_s_answer_comes()
        else:
            code = random.choice([0] * 9 + [LOADING, NOT_COORDINATOR, CONCURRENT])
            machine.a_coordinator_takes_the_request(code)
    elif chance < 0.75 and machine.flying:
        if any(each.code is not None for each in machine.flying):
            machine.a_broker_s_answer_comes(pick)
        else:
            machine.a_broker_takes_a_batch(pick, random.choice([0] * 40 + [REFUSED]))
    else:
        machine.round()


def trouble(machine: TransactionMachine, random: Random) -> None:
    pick, late, chance = random.randrange(10), random.random() < 0.5, random.random()
    if isinstance(machine, DisturbedMachine) and machine.idle_in_shared() and chance < 0.5:
        machine.somebody_ends_a_shared_transaction(random.random() < 0.5, random.random() < 0.8)
    elif chance < 0.25 and machine.asked is not None:
        machine.a_request_or_its_response_is_lost(late)
    elif chance < 0.40 and machine.flying:
        machine.a_batch_is_sent_again(pick, late)
    elif chance < 0.45 and (machine.flying or machine.queued):
        machine.a_batch_s_time_is_over(pick, late)
    elif chance < 0.55 and machine.late:
        machine.a_late_request_is_read(pick)
    elif chance < 0.60:
        machine.the_coordinator_moves(random.choice(sorted(NODES)))
    elif chance < 0.61:
        machine.the_brokers_are_upgraded()
    elif chance < 0.85 or not isinstance(machine, DisturbedMachine):
        machine.the_markers_are_written()
    elif chance > 0.99 and machine.manager.state is not S.UNINITIALIZED:
        machine.another_producer_comes()
    elif chance > 0.98 and machine.coordinator.state is State.ONGOING:
        machine.a_transaction_takes_too_long()


@pytest.mark.parametrize("machine", [TransactionMachine, DisturbedMachine])
def test_long_lives(machine: type[TransactionMachine]) -> None:
    """More events than hypothesis would try, the usual ones most often, without shrinking."""
    for seed in range(LIVES):
        print(f"{seed=}")
        random, life = Random(seed), machine()
        life.begin_life(random.choice([1, 2]), random.choice([-1, 5, EXHAUSTED - 3]))
        for _ in range(400):
            (usual if random.random() < 0.85 else trouble)(life, random)
            life.check()
        life.teardown()
