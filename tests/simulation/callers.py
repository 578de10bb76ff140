"""The application of a life: callers that send, wait, cancel, and hold the event loop."""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pyarrow

from aioproducer import (
    AbortableTransactionError,
    CommitUnconfirmedError,
    FailedRecord,
    FatalTransactionError,
    Producer,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    UsageError,
)
from aioproducer.model import TopicPartition
from tests.simulation.hooks import CountingInterceptor, CountingObserver
from tests.simulation.journal import Sent, Transaction
from tests.simulation.plan import GROUP, INPUT, TOPICS, Step

if TYPE_CHECKING:
    from tests.simulation.life import Life

MOST_COMMITS: Final = 20
LONGEST_AFTER_OUTCOMES: Final = 2.0
"""Seconds after the outcome of every record in which a flush has returned."""
KEYS: Final = [f"key-{number}".encode() for number in range(7)]


class Application:
    """A producer, and the callers that share it."""

    def __init__(self, name: str, producer: Producer[Any, Any], life: Life) -> None:
        self.name = name
        self.producer = producer
        self.life = life
        self.sent = 0
        self.transactions = count()
        self.unresolved: dict[int, Sent] = {}
        """The records whose futures have not called back, by number."""
        self.interceptor: CountingInterceptor | None = None
        self.observer: CountingObserver | None = None
        self.added_headers: tuple[tuple[str, bytes], ...] = ()
        """The headers that an interceptor adds to each record."""
        self.aside: list[asyncio.Task[None]] = []
        """The calls that callers do not wait for."""
        self.started = False
        self.at_rest = False
        """True when its callers have ended."""
        self.ended: BaseException | None = None
        """The reason that it can send no more: it was closed or fenced."""

    def stop(self, error: BaseException) -> None:
        """Send no more."""
        self.ended = error

    async def failed(self, record: FailedRecord) -> None:
        """Take a record from ``on_failed``, and call in there what the plan says.

        A call of the hook is cancelled after ``delivery_timeout_ms``, or at the producer's end.
        """
        assert record.value is not None
        self.life.journal.kept.append((self.name, record.value))
        if self.ended is not None:
            return
        options, began = self.life.plan.producers[self.name], self.life.running_time
        try:
            match options["on_failed"]:
                case "flush":
                    with self.life.call("flush", self.name):
                        await self.producer.flush()
                case "close":
                    await self.life.close_midway(self)
        except ProducerError as error:
            self.life.tell(f"on_failed of producer {self.name}: {error}")
        except asyncio.CancelledError:
            ran = self.life.running_time - began
            closes = options["on_failed"] == "close"
            early = ran < options["delivery_timeout_ms"] / 1000
            if closes and early and not self.life.loop_ends:
                self._waits_for_itself(f"close() was cancelled after {ran:g} s")
            elif not closes and self.ended is None and self._outcomes_are_old():
                self._waits_for_itself(f"flush() was cancelled after {ran:g} s")
            raise

    def _outcomes_are_old(self) -> bool:
        """True if every record has had its outcome for so long that a flush has returned."""
        mine = [sent for sent in self.life.journal.sent if sent.producer == self.name]
        now = self.life.running_time
        return not any(
            sent.cancelled
            or sent.resolved_at is None
            or now - (sent.resolved_at - sent.stopped_until) < LONGEST_AFTER_OUTCOMES
            for sent in mine
        )

    def _waits_for_itself(self, how: str) -> None:
        self.life.journal.broken("calls_end", f"on_failed of producer {self.name}: {how}")

    def record(self, topic: str, size: int, random: Random, how: str | int) -> Sent:
        """A record with a value that no other has; ``how``: its partition, or how that is found."""
        number, self.sent = self.sent, self.sent + 1
        value = f"{self.name}{number}/".encode()
        value += random.randbytes(size) if size < 1_000 else bytes(size)
        sent = Sent(
            number,
            self.name,
            topic,
            random.randrange(TOPICS[topic]) if how == "named" else _named(how),
            random.choice(KEYS) if how == "key" else None,
            value,
            (("h", b"%d" % number),) if number % 5 == 0 else (),
            self.life.loop.time(),
            stopped_at=self.life.stopped,
        )
        self.life.journal.sent.append(sent)
        return sent

    def put(self, sent: Sent, *, measured: bool = True) -> asyncio.Future[Any] | None:
        """Send a record; None: the call has raised."""
        value: Any = sent.value
        key: Any = sent.key
        headers = [*sent.headers]
        if self.life.plan.changed:
            value, key = bytearray(value), None if key is None else bytearray(key)
        try:
            sent.future = self.producer.send(
                sent.topic,
                value,
                key=key,
                partition=sent.partition,
                headers=headers or None,
            )
        except ProducerError as error:
            sent.raised = error
            sent.resolved_at, sent.stopped_until = self.life.loop.time(), self.life.stopped
            return None
        finally:
            if self.life.plan.changed:
                self.life.lived.add("changed")
                _spoil(value)
                _spoil(key)
                headers.append(("changed", b"after the call"))
        sent.future.add_done_callback(lambda _: self._resolved(sent))
        self.unresolved[sent.number] = sent
        if measured:
            self.measure()
        return sent.future

    def measure(self) -> None:
        """Note the bytes without an outcome, if they were never more.

        Memory is free as soon as a future is done. Its callbacks come later.
        """
        journal = self.life.journal
        sizes = [s.size for s in self.unresolved.values() if s.future and not s.future.done()]
        most = max(journal.most_undelivered[self.name], sum(sizes))
        journal.most_undelivered[self.name] = most

    def _resolved(self, sent: Sent) -> None:
        sent.resolved_at = self.life.loop.time()
        sent.stopped_until = self.life.stopped
        del self.unresolved[sent.number]
        assert sent.future is not None
        if not sent.future.cancelled() and sent.future.exception() is None:
            self.life.turns.delivered()


class Caller:
    """One task of an application."""

    def __init__(self, name: str, application: Application) -> None:
        self.name = name
        self.app = application
        self.life = application.life
        self.random = Random(f"{application.life.plan.seed} {name}")
        self.transaction: Transaction | None = None

    async def run(self, steps: tuple[Step, ...]) -> None:
        """Do the steps, until the producer is closed."""
        for step in steps:
            if self.app.ended is not None:
                return
            try:
                await getattr(self, step.kind)(*step.args, *([step.steps] if step.steps else []))
            except ProducerClosedError:
                if not self.life.closing(self.app.name):
                    self.life.journal.broken(
                        "errors_of_the_right_class",
                        f"caller {self.name}: ProducerClosedError of a producer that is open",
                    )
                return

    async def nothing(self) -> None:
        """A step that was left out."""

    # --- records ---------------------------------------------------------------------------

    async def send(self, records: int, size: int, topic: str, how: str) -> None:
        """Send, and drain."""
        for _ in range(records):
            self._put(self.app.record(topic, size, self.random, how))
        await self.app.producer.drain()

    def _put(self, sent: Sent) -> asyncio.Future[Any] | None:
        sent.transaction = self.transaction
        return self.app.put(sent)

    async def send_and_wait(self, size: int, topic: str, how: str | int) -> None:
        """Send one record, and await it."""
        future = self._put(self.app.record(topic, size, self.random, how))
        if future is not None:
            await asyncio.wait([future])

    async def send_many(self, records: int, size: int, topic: str, how: str) -> None:
        """Send values in bulk."""
        partition = self.random.randrange(TOPICS[topic]) if how == "named" else None
        batch = self._bulk(records, size, topic, partition)
        await self._send_bulk(batch, [sent.value for sent in batch], partition)
        self.life.lived.add("send_many")

    async def columns(self, records: int, size: int, topic: str) -> None:
        """Send a column of Arrow in bulk."""
        batch = self._bulk(records, size, topic, None)
        await self._send_bulk(batch, pyarrow.array([sent.value for sent in batch]), None)
        self.life.lived.add("columns")

    def _bulk(self, records: int, size: int, topic: str, partition: int | None) -> list[Sent]:
        batch = [self.app.record(topic, size, self.random, "sticky") for _ in range(records)]
        for sent in batch:
            sent.bulk, sent.partition = batch[0].number, partition
            sent.headers = self.app.added_headers
            sent.transaction = self.transaction
        return batch

    async def _send_bulk(self, batch: list[Sent], values: Any, partition: int | None) -> None:
        report = await self.app.producer.send_many(batch[0].topic, values, partition=partition)
        for sent in batch:
            sent.resolved_at, sent.stopped_until = self.life.loop.time(), self.life.stopped
            sent.until = self.app.sent
        self.life.journal.bulk_reports.append((batch, report))

    async def burst(self, records: int, size: int, topic: str, how: str) -> None:
        """Send without a suspension, as fast as a loop can."""
        for _ in range(records):
            sent = self.app.record(topic, size, self.random, how)
            sent.transaction = self.transaction
            self.app.put(sent, measured=False)
        self.app.measure()
        self.life.lived.add("burst")

    async def cancel(self, seconds: float, topic: str, how: str) -> None:
        """Send a record, and cancel its future."""
        sent = self.app.record(topic, 20, self.random, how)
        future = self._put(sent)
        if future is not None:
            if seconds:
                await asyncio.sleep(seconds)
            sent.cancelled = future.cancel()

    async def flush(self) -> None:
        """Flush; everything that was sent before has an outcome then."""
        before = [
            sent
            for sent in self.life.journal.sent
            if sent.producer == self.app.name and sent.future is not None
        ]
        with self.life.call("flush", self.app.name) as call:
            await self.app.producer.flush()
            call.unresolved = sum(not (s.future is None or s.future.done()) for s in before)

    async def pause(self, seconds: float) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(seconds)

    async def hold(self, seconds: float) -> None:
        """Hold the event loop."""
        self.life.stop(seconds, "select")
        self.life.lived.add("holding")

    # --- transactions ----------------------------------------------------------------------

    async def transact(self, ending: str, seconds: float, steps: tuple[Step, ...] = ()) -> None:
        """Do ``steps`` in a transaction, and end it after ``seconds``."""
        mine = Transaction(self.app.name, next(self.app.transactions), self.life.loop.time())
        self.life.journal.transactions.append(mine)
        self.transaction = mine
        committing = False
        try:
            async with self.app.producer.transaction():
                for step in steps:
                    await getattr(self, step.kind)(*step.args)
                await asyncio.sleep(seconds)
                if ending == "abort":
                    raise _ChangedItsMindError
                committing = True
        except _ChangedItsMindError:
            mine.outcome = "aborted"
        except CommitUnconfirmedError:
            mine.outcome = await self._outcome_of_commit()
        except AbortableTransactionError:
            mine.outcome = "aborted"
        except (FatalTransactionError, ProducerBrokenError, UsageError) as error:
            mine.outcome = "unknown" if committing else "aborted"
            self.app.stop(error)
        except ProducerError:
            mine.outcome = "aborted"
        except asyncio.CancelledError:
            mine.outcome = "unknown"
            raise
        else:
            mine.outcome = "committed"
        finally:
            self.transaction, mine.ended = None, self.life.loop.time()

    async def _outcome_of_commit(self) -> str:
        """The outcome of a commit that was not confirmed in time."""
        for _ in range(MOST_COMMITS):
            try:
                await self.app.producer.commit_transaction()
            except CommitUnconfirmedError:
                continue
            except AbortableTransactionError:
                return "aborted"
            except ProducerError as error:
                self.app.stop(error)
                return "unknown"
            return "committed"
        return "unknown"

    async def send_offsets(self, partition: int, offset: int) -> None:
        """Add a consumed offset to the transaction."""
        assert self.transaction is not None
        where = TopicPartition(INPUT, partition)
        self.transaction.tried_offset = where, offset
        await self.app.producer.send_offsets_to_transaction({where: offset}, GROUP)
        self.transaction.offset = where, offset

    async def send_offsets_aside(self, partition: int, offset: int) -> None:
        """Add a consumed offset in another task, and go on."""
        assert self.transaction is not None
        adding = self.life.loop.create_task(
            self._add_offsets(self.transaction, partition, offset), name=f"offsets of {self.name}"
        )
        self.app.aside.append(adding)
        await asyncio.sleep(0)

    async def _add_offsets(self, mine: Transaction, partition: int, offset: int) -> None:
        where = TopicPartition(INPUT, partition)
        if mine.tried_offset is not None:
            return
        mine.tried_offset, mine.aside = (where, offset), True
        try:
            await self.app.producer.send_offsets_to_transaction({where: offset}, GROUP)
        except ProducerError as error:
            mine.refused_offset = error
        else:
            mine.offset = where, offset


def _spoil(buffer: bytearray | None) -> None:
    """Overwrite a buffer that was passed to a call."""
    if buffer is not None:
        buffer[:] = bytes(len(buffer))


def _named(how: str | int) -> int | None:
    return how if isinstance(how, int) else None


class _ChangedItsMindError(Exception):
    """The application aborts its transaction."""
