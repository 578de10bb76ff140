"""The judge of a life: each promise of the guarantees page, against the brokers' logs.

A promise is a method; it yields the broken ones in words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from aioproducer import (
    BootstrapError,
    BrokerConnectionError,
    BufferExhaustedError,
    DeliveryTimeoutError,
    FatalTransactionError,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    TransactionError,
)
from aioproducer.errors import (
    Disposition,
    OutOfOrderSequenceNumberError,
    PreparationTimeoutError,
    ProducerTimeoutError,
    RequestTimeoutError,
    TransactionAbortedError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import tuning
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.loop import BEGIN
from tests.simulation.journal import Call, Sent, Transaction
from tests.simulation.plan import BRISK, DELAYING, EXPIRING, FORGETFUL, GROUP, MURMUR2, TOPICS
from tests.simulation.wire import PRODUCE, values_of
from tests.support.simulated_world import model_of

if TYPE_CHECKING:
    from tests.simulation.life import Life

SOON: Final = 3.0
"""Seconds in which a call returns after the last outcome that it waits for: the last push of
telemetry may take one."""
_SLICES_AT_ONCE: Final = 4
"""Slices of results in one iteration: the sender's, and those of responses that are read in it."""
_SMALL_REQUESTS: Final = 4_000
"""Bytes of other requests to a connection."""
_LATE_BY: Final = 1.0
"""Seconds after its timeout in which a request has ended."""
SLACK: Final = 2.0
"""Seconds of the virtual clock by which a bound may be missed."""
LOSSY: Final = frozenset({"lossy_crash", "truncate", "recreate", "replace"})
UNCLEAN: Final = frozenset({"truncate", "recreate", "replace"})
"""The faults that lose what all replicas have."""
DEFAULTS: Final[dict[str, Any]] = {
    "acks": "all",
    "enable_idempotence": True,
    "request_timeout_ms": 30_000,
    "delivery_timeout_ms": 120_000,
    "max_block_ms": 60_000,
    "buffer_memory": 33_554_432,
    "transaction_timeout_ms": 60_000,
    "connections_max_idle_ms": 540_000,
    "max_in_flight_requests_per_connection": 5,
}
"""The options that bound what is promised, as they are documented."""
HARMLESS: Final = frozenset({"freeze", "nothing"})


_NOBODYS_FAULT: Final = ProducerClosedError, BufferExhaustedError, TransactionAbortedError
"""Errors of healthy records: the application closes, sends too fast, or aborts."""
_TIMEOUTS: Final = (
    DeliveryTimeoutError,
    BufferExhaustedError,
    MetadataTimeoutError,
    PreparationTimeoutError,
    BootstrapError,
)
_REFUSALS: Final = KafkaError, TransactionError, IllegalStateError
"""The errors of what a plan lets brokers refuse."""
ORDERLY: Final = HARMLESS | {"fail", "refuse", "throttle"}
"""The faults that keep the order of a producer with one request in flight. A slow network does,
too, unless a request times out: the broker may write it after later ones, and no number tells."""
_PATIENT_MS: Final = 30_000
"""A timeout of requests that no slow network of a plan exceeds."""
ANSWERED: Final = HARMLESS | {"fail", "refuse"}
"""The faults with which no response is lost or late."""
FINAL: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_RECORD})
"""The error codes by which brokers refuse a batch for good."""


TOO_LARGE: Final = frozenset({10, 18})
"""The codes after which a batch is split."""


class Judge:
    """Judges a life that was lived."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.plan = life.plan
        self.journal = life.journal
        self.model = model_of(life.world)

    def violations(self) -> list[str]:
        """Every broken promise, in words."""
        found = list(self.journal.violations)
        if any(each.startswith("it_lives") for each in found):
            return found
        for promise in (
            self.no_future_without_end,
            self.nothing_lost,
            self.nothing_twice,
            self.nothing_out_of_order,
            self.nothing_misplaced,
            self.nothing_foreign,
            self.nothing_untruthful,
            self.refused_records_fail,
            self.numbers_fit,
            self.errors_of_the_right_class,
            self.healthy_records_do_not_fail,
            self.failures_come_in_time,
            self.failed_records_are_kept,
            self.transactions_are_atomic,
            self.nobody_is_fenced_by_mistake,
            self.the_fenced_write_no_more,
            self.offsets_move_with_transactions,
            self.memory_is_bounded,
            self.calls_end_in_time,
            self.the_loop_is_left_clean,
            self.few_requests_are_in_flight,
            self.the_reader_returns_the_log,
            self.health,
            self.waits_end_with_the_last_outcome,
            self.who_leaves_delivers,
            self.hooks_are_told_once,
            self.no_turn_is_long,
            self.late_requests_end,
        ):
            found += [f"{promise.__name__}: {each}" for each in promise()]
        return found

    # --- what is known ---------------------------------------------------------------------

    def _options(self, producer: str) -> dict[str, Any]:
        return DEFAULTS | self.plan.producers[producer]

    def _acks(self, producer: str) -> str:
        acks: str = self._options(producer)["acks"]
        return acks

    def _idempotent(self, producer: str) -> bool:
        return bool(self._options(producer)["enable_idempotence"])

    def _transactional(self, producer: str) -> bool:
        return "transactional_id" in self._options(producer)

    @cached_property
    def logs(self) -> dict[tuple[str, int], list[Any]]:
        """The records of each partition."""
        return {
            (topic, partition): list(self.model.log(topic, partition))
            for topic, partitions in TOPICS.items()
            for partition in range(partitions)
        }

    @cached_property
    def places(self) -> dict[bytes, list[tuple[str, int, Any]]]:
        """The places of each value in the logs."""
        found: dict[bytes, list[tuple[str, int, Any]]] = defaultdict(list)
        for (topic, partition), log in self.logs.items():
            for record in log:
                found[record.value].append((topic, partition, record))
        return found

    @cached_property
    def left(self) -> set[bytes | None]:
        """The values that clients have written to their connections."""
        return {value for wire in self.life.wires for value in wire.values()}

    @property
    def cut_short(self) -> bool:
        """True if a connection was lost in the midst of a request: :attr:`left` lacks that one."""
        return any(wire.cut_short for wire in self.life.wires)

    @cached_property
    def outcomes(self) -> dict[bytes, tuple[str, Any]]:
        """The outcome of each record: delivered (partition, offset), failed (error), or open."""
        found: dict[bytes, tuple[str, Any]] = {}
        for sent in self.journal.sent:
            if sent.result is not None:
                found[sent.value] = "delivered", (sent.result.partition, sent.result.offset)
            elif sent.error is not None:
                found[sent.value] = "failed", sent.error
            elif sent.future is not None and sent.future.cancelled():
                found[sent.value] = "cancelled", None
            else:
                found[sent.value] = "open", None
        for batch, report in self.journal.bulk_reports:
            for index, sent in enumerate(batch):
                if index in report.failures:
                    found[sent.value] = "failed", report.failures[index]
                elif report.partitions[index] >= 0:
                    place = report.partitions[index], report.offsets[index]
                    found[sent.value] = "delivered", place
        return found

    @property
    def deleted(self) -> bool:
        """True if records were deleted from the logs."""
        return "delete_records" in self.plan.kinds

    def _is_lost_by_brokers(self, sent: Sent) -> bool:
        """True if the brokers may have lost a record that they had acknowledged."""
        if self._acks(sent.producer) == "all":
            return bool(UNCLEAN & self.plan.kinds) or (
                self.plan.brokers < 3 and "lossy_crash" in self.plan.kinds
            )
        return bool((LOSSY | {"crash", "move"}) & self.plan.kinds)

    def _delivered(self) -> Iterator[tuple[Sent, int, int]]:
        for sent in self.journal.sent:
            kind, place = self.outcomes[sent.value]
            if kind == "delivered":
                yield sent, *place

    def _failed(self) -> Iterator[tuple[Sent, BaseException]]:
        for sent in self.journal.sent:
            kind, error = self.outcomes[sent.value]
            if kind == "failed":
                yield sent, error

    # --- the promises ----------------------------------------------------------------------

    def no_future_without_end(self) -> Iterator[str]:
        """A flush, and in the end close(), give every record an outcome."""
        for sent in self.journal.sent:
            if sent.future is not None and not sent.future.done():
                yield f"{sent.name} has no outcome"
        for call in self.journal.calls:
            if call.unresolved:
                yield f"flush() left {call.unresolved} records without an outcome"

    def nothing_lost(self) -> Iterator[str]:
        """A delivered record is at its offset, with key, value and headers."""
        for sent, partition, offset in self._delivered():
            if self._acks(sent.producer) == "0":
                continue
            found = self.places.get(sent.value, [])
            if not found:
                if not self.deleted and not self._is_lost_by_brokers(sent):
                    yield f"{sent.name} was delivered, and is not in the log of {sent.topic}"
                continue
            for topic, number, record in found:
                added = self.life.applications[sent.producer].added_headers
                headers = sent.headers if sent.bulk is not None else (*sent.headers, *added)
                if (record.key, tuple(record.headers)) != (sent.key, headers):
                    yield f"{sent.name} was changed: {record}"
                if topic != sent.topic or number != partition:
                    yield f"{sent.name} is in {topic}-{number}, not in {sent.topic}-{partition}"
            elsewhere = offset >= 0 and offset not in [record.offset for *_, record in found]
            if elsewhere and not self._is_lost_by_brokers(sent):
                yield f"{sent.name} is not at its offset {offset} in {sent.topic}-{partition}"

    def nothing_twice(self) -> Iterator[str]:
        """An idempotent producer writes no record twice; nobody does without a fault."""
        for sent in self.journal.sent:
            places = self.places.get(sent.value, [])
            if len(places) > 1:
                may = not self._idempotent(sent.producer) and not self.plan.kinds <= HARMLESS
                open_case = self._idempotent(sent.producer) and self._may_repeat(places)
                if not may and not open_case:
                    at = [f"{topic}-{number}@{record.offset}" for topic, number, record in places]
                    yield f"{sent.name} is in the log {len(places)} times: {at}"

    def _may_repeat(self, places: list[tuple[str, int, Any]]) -> bool:
        """True if a broker has forgotten the producer between two copies of a record.

        One that knows the first copy only takes another one with another number.
        """
        if FORGETFUL & self.plan.kinds - EXPIRING:
            return True
        places = sorted(places, key=lambda place: place[2].offset)
        topic, number, _ = places[0]
        where, offsets = TopicPartition(topic, number), [each.offset for *_, each in places]
        return all(
            any(first < ends[where] <= second for ends in self.life.expiries)
            for first, second in pairwise(offsets)
        )

    def nothing_out_of_order(self) -> Iterator[str]:
        """The records of a producer in a partition are in the order of their sends."""
        by_value = {sent.value: sent for sent in self.journal.sent}
        for (topic, partition), log in self.logs.items():
            latest: dict[str, Sent] = {}
            in_bulk: dict[tuple[str, int], Sent] = {}
            for record in log:
                sent = by_value.get(record.value)
                if sent is None or not self._keeps_order(sent.producer):
                    continue
                before = latest.setdefault(sent.producer, sent)
                if _begin(before) >= _end(sent) and before is not sent:
                    yield f"{topic}-{partition}: {before.name} lies before {sent.name}"
                if _begin(sent) > _begin(before):
                    latest[sent.producer] = sent
                if sent.bulk is not None:
                    before = in_bulk.get((sent.producer, sent.bulk), sent)
                    if before.number > sent.number:
                        yield f"{topic}-{partition}: {before.name} lies before {sent.name}"
                    in_bulk[sent.producer, sent.bulk] = sent

    def _keeps_order(self, producer: str) -> bool:
        one = self._options(producer)["max_in_flight_requests_per_connection"] == 1
        if self._idempotent(producer):
            return not FORGETFUL & self.plan.kinds
        options = self._options(producer)
        patient = options["request_timeout_ms"] >= _PATIENT_MS
        if options["acks"] == "0":  # a new connection can overtake the bytes of one that was idle
            patient = patient and options["connections_max_idle_ms"] >= _PATIENT_MS
        orderly = ORDERLY | {"slow"} if patient else ORDERLY
        return self.plan.kinds <= (orderly if one else HARMLESS)

    def nothing_misplaced(self) -> Iterator[str]:
        """A record is in the partition that it names, or in the one of its key."""
        for sent in self.journal.sent:
            for topic, partition, _ in self.places.get(sent.value, []):
                wanted = sent.partition
                if wanted is None and sent.key is not None:
                    wanted = MURMUR2[sent.key] % TOPICS[topic]
                if wanted is not None and wanted != partition:
                    yield f"{sent.name} is in {topic}-{partition}, not in partition {wanted}"

    def nothing_foreign(self) -> Iterator[str]:
        """The logs have no other records."""
        values = {sent.value for sent in self.journal.sent}
        for value, places in self.places.items():
            if value not in values:
                yield f"{places} has a value that nobody sent: {value[:20]!r}"

    def nothing_untruthful(self) -> Iterator[str]:
        """``may_have_been_written`` False: not in the log. True: it has left at least."""
        for sent, error in self._failed():
            written = getattr(error, "may_have_been_written", False)
            if not written and sent.value in self.places:
                yield f"{sent.name} was not written by its error, but is in the log: {error!r}"
            if written and sent.value not in self.left and not self.cut_short:
                yield f"{sent.name} may have been written by its error, but never left: {error!r}"

    def refused_records_fail(self) -> Iterator[str]:
        """A record that a broker has refused for good is not sent again."""
        if not self.plan.kinds <= ANSWERED:
            return
        refused = {
            value
            for request, code in self.model.failed
            if request.api == PRODUCE and code in FINAL and request.body.acks
            for value in values_of(request)
        }
        for sent, *_ in self._delivered():
            if sent.value in refused:
                yield f"{sent.name} was refused by a broker, and is delivered"

    def numbers_fit(self) -> Iterator[str]:
        """A broker misses a batch only behind one that was given up, or if brokers forget.

        A record whose future was cancelled is given up unseen, if it has left and is in no log.
        One that has restarted knows the last batch of each producer. A batch that was split after
        it may have been written has parts that no broker knows. A request that comes when its
        transaction has ended makes the broker expect its number again in the next one, where the
        coordinator is asked (Kafka's ``VerificationStateEntry``).
        """
        if (FORGETFUL | {"crash"}) & self.plan.kinds:
            return
        given_up = {
            (sent.producer, id(sent.transaction))
            for sent, error in self._failed()
            if not isinstance(error, OutOfOrderSequenceNumberError)
            and (sent.transaction is not None or getattr(error, "may_have_been_written", False))
        } | {
            (sent.producer, id(sent.transaction))
            for sent in self.journal.sent
            if self.outcomes[sent.value][0] == "cancelled"
            and sent.value in self.left
            and sent.value not in self.places
        }
        split = {
            value
            for request, code in self.model.failed
            if request.api == PRODUCE and code in TOO_LARGE
            for value in values_of(request)
        }
        for sent, error in self._failed():
            alone = (sent.producer, id(sent.transaction)) not in given_up
            if not isinstance(error, OutOfOrderSequenceNumberError) or not alone:
                continue
            if sent.transaction is not None and DELAYING & self.plan.kinds:
                continue
            if not error.may_have_been_written or sent.value not in split:
                yield f"{sent.name} failed although no batch was given up before: {error!r}"

    def errors_of_the_right_class(self) -> Iterator[str]:
        """Errors name what has happened, and no part of the producer dies."""
        for sent, error in self._failed():
            if not isinstance(error, ProducerError) or isinstance(error, ProducerBrokenError):
                yield f"{sent.name} failed by {error!r}: {error.__cause__!r}"
            elif isinstance(error, ProducerClosedError):
                if self.life.applications[sent.producer].ended is None:
                    yield f"{sent.name} failed by {error!r} before close()"
            elif isinstance(error, KafkaError) and error.disposition is Disposition.DELIVERED:
                yield f"{sent.name} is in the log, and failed by {error!r}"
            elif isinstance(error, BrokerConnectionError | RequestTimeoutError):
                if not self._had_its_time(sent):
                    yield f"{sent.name} failed before its time by {error!r}"
            elif not isinstance(error, (*_TIMEOUTS, *_REFUSALS)):
                yield f"{sent.name} failed by {error!r}"

    def _had_its_time(self, sent: Sent) -> bool:
        """True if a record, or the batch that it joined, may have been too late to be retried."""
        timeout = self._options(sent.producer)["delivery_timeout_ms"] / 1000
        return sent.resolved_at is None or sent.resolved_at - BEGIN >= timeout

    def healthy_records_do_not_fail(self) -> Iterator[str]:
        """Time in which the process did not run counts against nobody.

        A lost connection costs ``request_timeout_ms`` at most.
        """
        slow_threads = self.plan.executor_delays != BRISK
        if slow_threads or not self.plan.kinds <= HARMLESS | {"forget"}:
            return
        lost = len(self.plan.events) + 1 if "forget" in self.plan.kinds else 0
        for sent, error in self._failed():
            options = self._options(sent.producer)
            patience = min(options["delivery_timeout_ms"], options["max_block_ms"])
            if lost * options["request_timeout_ms"] * 2 > patience:
                continue
            if isinstance(error, _NOBODYS_FAULT) or isinstance(error.__cause__, _NOBODYS_FAULT):
                continue
            if sent.transaction is not None and self._took_too_long(sent.transaction):
                continue
            yield f"{sent.name} failed while nothing was wrong: {error!r}"

    def failures_come_in_time(self) -> Iterator[str]:
        """A record has its outcome within ``delivery_timeout_ms``."""
        for sent in self.journal.sent:
            if sent.resolved_at is None or sent.bulk is not None:
                continue
            bound = self._options(sent.producer)["delivery_timeout_ms"] / 1000
            ran = sent.resolved_at - sent.at - (sent.stopped_until - sent.stopped_at)
            if ran > bound + SLACK:
                yield f"{sent.name} had its outcome after {ran:.1f} s, not {bound:g} s"

    def failed_records_are_kept(self) -> Iterator[str]:
        """``on_failed`` gets each record once whose own delivery has failed, and no others."""
        kept = Counter(self.journal.kept)
        for sent in self.journal.sent:
            options = self._options(sent.producer)
            times = kept[sent.producer, sent.value]
            kind, error = self.outcomes[sent.value]
            if times > 1 or (times and kind == "delivered"):
                yield f"{sent.name} ({kind}) was given to on_failed {times} times"
            certain = sent.bulk is None and sent.raised is None and sent.transaction is None
            closed = sent.producer in self.journal.closed
            if "on_failed" not in options or kind != "failed" or not certain or closed:
                continue
            if not times and options["buffer_memory"] == DEFAULTS["buffer_memory"]:
                yield f"{sent.name} failed, and on_failed did not get it: {error!r}"

    def transactions_are_atomic(self) -> Iterator[str]:
        """A committed transaction's records are visible, once; of an aborted one, none is.

        Brokers that lose the end of a log may lose the marker of an abort, too. Then the marker of
        the producer's next transaction ends both (Kafka's ``ProducerAppendInfo``).
        """
        records: dict[int, list[Sent]] = defaultdict(list)
        for sent in self.journal.sent:
            if sent.transaction is not None:
                records[id(sent.transaction)].append(sent)
        for mine in self.journal.transactions:
            sent_in_it = records[id(mine)]
            visible = [sent for sent in sent_in_it if self._visible(sent)]
            delivered = [s for s in sent_in_it if self.outcomes[s.value][0] == "delivered"]
            name = f"transaction {mine.number} of producer {mine.producer}"
            lost = any(map(self._is_lost_by_brokers, sent_in_it))
            if mine.outcome == "aborted" and visible and not lost:
                yield f"{name} was aborted, but {visible[0].name} is visible"
            if self.deleted or lost:
                continue
            if mine.outcome == "committed":
                for sent in sent_in_it:
                    kind = self.outcomes[sent.value][0]
                    if kind == "failed":
                        yield f"{name} was committed, but {sent.name} has failed"
                    if kind == "delivered" and not self._visible(sent):
                        yield f"{name} was committed, but {sent.name} is not visible"
            elif visible and len(visible) < len(delivered):
                yield f"{name} is visible in part: {len(visible)} of {len(delivered)}"

    def nobody_is_fenced_by_mistake(self) -> Iterator[str]:
        """A transactional producer goes on, unless another one has its id.

        With version 1 a coordinator also fences it if its transaction takes too long.
        """
        for name, application in self.life.applications.items():
            if not isinstance(application.ended, FatalTransactionError):
                continue
            mine = [t for t in self.journal.transactions if t.producer == name]
            too_long = self.plan.transaction_version == 1 and any(map(self._took_too_long, mine))
            # A cluster that replaced another one may refuse a request before metadata names it.
            refused = not {"refuse", "replace"}.isdisjoint(self.plan.kinds)
            if name not in self.life.fenced and not too_long and not refused:
                yield f"producer {name} can't go on: {application.ended!r}"

    def the_fenced_write_no_more(self) -> Iterator[str]:
        """A producer whose transactional id another one has taken commits no new transaction."""
        for mine in self.journal.transactions:
            taken = self.journal.taken.get(mine.producer, float("inf"))
            wrote = any(
                sent.transaction is mine and self.outcomes[sent.value][0] == "delivered"
                for sent in self.journal.sent
            )
            if mine.outcome == "committed" and mine.began > taken and wrote:
                yield f"transaction {mine.number} of producer {mine.producer}, which was fenced"

    def _took_too_long(self, mine: Transaction) -> bool:
        """True if a coordinator may have aborted a transaction by itself."""
        timeout = self._options(mine.producer)["transaction_timeout_ms"] / 1000
        return bool(mine.ended - mine.began > timeout) or "time_out" in self.plan.kinds

    def _visible(self, sent: Sent) -> bool:
        return any(record.visible is True for *_, record in self.places.get(sent.value, []))

    def offsets_move_with_transactions(self) -> Iterator[str]:
        """Consumed offsets move with committed transactions alone, and those move them."""
        for each in self.journal.transactions:
            if each.outcome == "committed" and each.refused_offset is not None:
                if isinstance(each.refused_offset, ProducerTimeoutError):
                    continue  # another task waited no longer; the commit may have taken them along
                yield (
                    f"transaction {each.number} of producer {each.producer} was committed without "
                    f"its offsets: {each.refused_offset!r}"
                )
        if "replace" in self.plan.kinds:  # another cluster has no offsets
            return
        with_offsets = [t for t in self.journal.transactions if t.tried_offset is not None]
        committed = self.model.committed_offsets(GROUP)
        for where in {t.tried_offset[0] for t in with_offsets if t.tried_offset is not None}:
            mine = [t for t in with_offsets if t.tried_offset and t.tried_offset[0] == where]
            done = [t for t in mine if t.outcome == "committed" and t.offset is not None]
            last = [t for t in done if not any(other.began >= t.ended for other in done)]
            allowed = [t.offset and t.offset[1] for t in last] or [None]
            allowed += [
                t.tried_offset and t.tried_offset[1]
                for t in mine
                if t.outcome == "unknown" or isinstance(t.refused_offset, ProducerTimeoutError)
            ]
            found = committed.get(where)
            offset = None if found is None else found.offset
            if offset not in allowed:
                yield f"group {GROUP} is at {offset} in {where}, not at one of {allowed}"

    def memory_is_bounded(self) -> Iterator[str]:
        """Records without an outcome take ``buffer_memory`` at most."""
        for producer, most in self.journal.most_undelivered.items():
            bound = self._options(producer)["buffer_memory"]
            if most > bound:
                yield f"producer {producer} had {most} bytes of records, more than {bound}"

    def calls_end_in_time(self) -> Iterator[str]:
        """close() returns within its timeout; flush() within the timeouts of records."""
        for call in self.journal.calls:
            timeout = call.timeout
            if timeout is None:
                options = self._options(call.producer)
                timeout = (options["delivery_timeout_ms"] + 60_000) / 1000
            ran = call.ended - call.began - call.stopped
            if ran > timeout + SLACK:
                yield f"{call.what} of producer {call.producer} took {ran:.1f} s, not {timeout:g} s"

    def the_loop_is_left_clean(self) -> Iterator[str]:
        """No exception reaches the handler of the event loop."""
        for complaint in self.life.loop.complaints:
            yield f"{complaint.get('message')}: {complaint.get('exception')!r}"

    def few_requests_are_in_flight(self) -> Iterator[str]:
        """At most ``max_in_flight_requests_per_connection``."""
        options = map(self._options, self.plan.producers)
        bound = max((each["max_in_flight_requests_per_connection"] for each in options), default=0)
        most = self.model.most_in_flight(0)
        unanswered = any(self._acks(producer) == "0" for producer in self.plan.producers)
        if most > bound and not unanswered:
            yield f"{most} produce requests were in flight on a connection, more than {bound}"

    def the_reader_returns_the_log(self) -> Iterator[str]:
        """A Reader returns each record once, in the order of the log, also from behind its end."""
        for isolation, read in self.journal.read_back.items():
            for place, log in self.logs.items():
                got = [record for record in read if (record.topic, record.partition) == place]
                wanted = [
                    each for each in log if isolation != "read_committed" or each.visible is True
                ]
                if [(r.offset, r.value) for r in got] != [(w.offset, w.value) for w in wanted]:
                    yield (
                        f"{isolation} of {place[0]}-{place[1]}: {len(got)} records at offsets "
                        f"{[r.offset for r in got][:5]}…, not {len(wanted)} at "
                        f"{[w.offset for w in wanted][:5]}…"
                    )
        yield from self._read_along()

    def _read_along(self) -> Iterator[str]:
        positions: Counter[tuple[str, int]] = Counter()
        for record in self.journal.read:
            place = record.topic, record.partition
            if record.offset < positions[place] and not LOSSY & self.plan.kinds:
                yield f"{place[0]}-{place[1]}: offset {record.offset} was read again"
            positions[place] = record.offset + 1
            if not (self.deleted or LOSSY & self.plan.kinds):
                kept = next((e for e in self.logs[place] if e.offset == record.offset), None)
                if kept is None or kept.value != record.value or kept.visible is not True:
                    yield f"{place[0]}-{place[1]}: {record.offset} was read, and is not so"

    def waits_end_with_the_last_outcome(self) -> Iterator[str]:
        """close() and flush() return soon after the last outcome that they wait for.

        A call of ``on_failed`` and the end of a transaction may take longer.
        """
        if self.plan.executor_delays != BRISK:
            return
        for call in self.journal.calls:
            if self._transactional(call.producer) or "on_failed" in self._options(call.producer):
                continue
            mine = [sent for sent in self.journal.sent if sent.producer == call.producer]
            if any(self._is_open_unseen(sent, call) for sent in mine):
                continue
            outcomes = (sent.resolved_at for sent in mine if sent.resolved_at is not None)
            last = max((each for each in outcomes if each <= call.ended), default=0.0)
            took = call.ended - max(call.began, last) - call.stopped
            if took > SOON:
                yield (
                    f"{call.what} of producer {call.producer} returned {took:.1f} s after the "
                    "last outcome"
                )

    def _is_open_unseen(self, sent: Sent, call: Call) -> bool:
        """True if a record may have had its outcome during a call, and the caller did not see."""
        if sent.cancelled:
            return True
        if sent.bulk is None or sent.at > call.ended:
            return False
        return sent.resolved_at is None or sent.resolved_at >= call.began

    def who_leaves_delivers(self) -> Iterator[str]:
        """Leaving ``async with`` delivers what was sent, also when all tasks are cancelled."""
        if not self.plan.kinds <= HARMLESS or self.plan.executor_delays != BRISK:
            return
        for sent, error in self._failed():
            alone = sent.bulk is None and sent.raised is None and sent.transaction is None
            if alone and sent.producer in self.journal.left and not self._is_short_of_time(sent):
                yield f"{sent.name} failed although its producer was left in peace: {error!r}"

    def _is_short_of_time(self, sent: Sent) -> bool:
        """True if the options, or many stops, leave a healthy record too little time."""
        options = self._options(sent.producer)
        return bool(min(options["delivery_timeout_ms"], options["max_block_ms"]) < _PATIENT_MS)

    def hooks_are_told_once(self) -> Iterator[str]:
        """Each record is acknowledged once to interceptors, and each trace ends once."""
        for name, application in self.life.applications.items():
            observer, interceptor = application.observer, application.interceptor
            if observer is not None:
                wrong = [trace.endings for trace in observer.given if trace.endings != 1]
                if wrong:
                    yield f"{len(wrong)} traces of producer {name} ended {wrong[0]} times"
            if interceptor is not None and interceptor.sent != interceptor.acknowledged:
                yield (
                    f"the interceptor of producer {name} saw {interceptor.sent} records, and "
                    f"{interceptor.acknowledged} outcomes"
                )

    def no_turn_is_long(self) -> Iterator[str]:
        """One iteration of the event loop delivers, and writes, no more than the steps allow.

        A loop whose iterations take long gets more results at once (``RESULTS_PER_SECOND``). The
        abort of a transaction gives every record its outcome in one iteration.
        """
        knobs = self.plan.knobs
        slice_ = knobs.get("RECORDS_PER_SLICE", tuning.RECORDS_PER_SLICE)
        part = knobs.get("RESULTS_WAITING_PART", tuning.RESULTS_WAITING_PART)
        turns, producers = self.life.turns, len(self.plan.producers)
        most = producers * (_SLICES_AT_ONCE * slice_ + turns.total_delivered / part)
        aborts = any(each.outcome != "committed" for each in self.journal.transactions)
        bounded = not knobs.get("RESULTS_PER_SECOND", 1) and not aborts
        if bounded and turns.most_delivered > most:
            yield f"{turns.most_delivered} records got results at once, more than {most:g}"
        step = knobs.get("BYTES_PER_STEP", tuning.BYTES_PER_STEP)
        piece = knobs.get("BYTES_PER_WRITE", tuning.BYTES_PER_WRITE)
        most, written = (
            step + 2 * piece + _SMALL_REQUESTS,
            [w.most_in_turn for w in self.life.wires],
        )
        if max(written, default=0) > most:
            yield f"{max(written)} bytes were written to a connection at once, more than {most:g}"

    def late_requests_end(self) -> Iterator[str]:
        """Only Produce and Fetch get more time than ``request_timeout_ms`` while bytes pass."""
        for wire in self.life.wires:
            if wire.client in self.plan.producers:
                timeout = self._options(wire.client)["request_timeout_ms"] / 1000
                if wire.longest_wait > timeout + _LATE_BY:
                    yield (
                        f"a request of producer {wire.client} that another broker could answer was "
                        f"waited for {wire.longest_wait:.1f} s, not {timeout:g} s"
                    )

    def health(self) -> Iterator[str]:
        """No call fails in a life without any fault."""
        if self.plan.events or self.plan.closes_after is not None:
            return
        for call in self.journal.calls:
            if call.error is not None:
                yield f"{call.what} failed without any fault: {call.error!r}"


def _begin(sent: Sent) -> int:
    """The number of the first record that may have been sent after this one."""
    return sent.number if sent.bulk is None else sent.bulk


def _end(sent: Sent) -> float:
    """The number of the first record that was surely sent after this one."""
    if sent.bulk is None:
        return sent.number + 1
    return float("inf") if sent.until is None else sent.until
