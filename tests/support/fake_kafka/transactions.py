"""The coordinators of :class:`FakeKafka`: transactions of version 1 and 2 of the protocol.

They do what Kafka's do with one producer that may repeat itself, and keep what was committed, so
that a test can see whether it is what the producer said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from aiokafka.record import MemoryRecords  # type: ignore[import-untyped]
from kio.static.primitive import i32Timedelta

from aioproducer.errors.broker import ErrorCode

FIND_COORDINATOR, INIT_PRODUCER_ID = 10, 22
ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 24, 25, 26, 28
OFFSET_FETCH = 9
COORDINATOR_APIS = (FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS)
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED = 47, 48, 90
UNSTABLE_OFFSET_COMMIT = 88
_FIRST_FETCH_OF_MANY = 8
_FIRST_END_WITH_EPOCH = 5
_FIRST_OFFSETS_THAT_ADD = 5
_FIRST_PRODUCE_THAT_ADDS = 12


class Fault(NamedTuple):
    """What happens to one request to a coordinator instead of the usual."""

    code: int = 0
    """Nothing is done then."""
    cut: bool = False
    """Close the connection; with ``done`` after it was done."""
    done: bool = False


Place = tuple[str, int]
Value = tuple[str, int, bytes | None]


@dataclass
class Transactional:
    """What is known of one transactional id."""

    producer_id: int
    epoch: int
    ended: bool | None = None
    """How the last transaction of the epoch ended: committed or not; None: there was none."""
    places: set[Place] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    values: list[Value] = field(default_factory=list)
    offsets: dict[Place, int] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        return bool(self.places or self.groups)


class FakeTransactions:
    """All transactional ids. ``level``: the cluster's ``transaction.version``."""

    def __init__(
        self, level: int, producer_ids: Iterator[int], partitions: Mapping[str, list[Any]]
    ) -> None:
        self.level = level
        self.ids: dict[str, Transactional] = {}
        self.committed: list[Value] = []
        """What a reader with ``read_committed`` sees, in the order of the commits."""
        self.offsets: dict[Place, int] = {}
        """The same, of consumed offsets."""
        self.faults: dict[int, deque[Fault]] = {}
        """For the next requests, by their API."""
        self._partitions = partitions
        self._producer_ids = producer_ids

    # --- what the brokers ask --------------------------------------------------------------

    def refuses(self, name: str, producer_id: int, epoch: int) -> int:
        """The error code for whoever is not, or no more, the holder of ``name``."""
        known = self.ids.get(name)
        if known is None or known.producer_id != producer_id:
            return INVALID_TXN_STATE
        return 0 if known.epoch == epoch else INVALID_PRODUCER_EPOCH

    def admit(self, body: Any, place: Place, records: bytes) -> int:
        """The error code for a batch, of the produce request ``body``, that wants to ``place``."""
        name = str(body.transactional_id)
        batch = MemoryRecords(bytes(records)).next_batch()
        assert batch.is_transactional
        code = self.refuses(name, batch.producer_id, batch.producer_epoch)
        if not code and body.__version__ >= _FIRST_PRODUCE_THAT_ADDS:
            assert self.level >= 2
            self.ids[name].places.add(place)
        if not code and place not in self.ids[name].places:
            code = INVALID_TXN_STATE
        return code

    def written(self, body: Any, place: Place, values: list[bytes | None]) -> None:
        """They are in the log."""
        self.ids[str(body.transactional_id)].values += [(*place, value) for value in values]

    def fault(self, api: int) -> Fault:
        """Of the next request of this kind."""
        faults = self.faults.get(api)
        return faults.popleft() if faults else Fault()

    # --- requests --------------------------------------------------------------------------

    def initialize(self, body: Any) -> tuple[int, tuple[int, int]]:
        """Error code, and the producer id with its epoch."""
        known = self.ids.get(str(body.transactional_id))
        kept = int(getattr(body, "producer_id", -1))
        if known is None:
            known = Transactional(next(self._producer_ids), -1)
            self.ids[str(body.transactional_id)] = known
        elif kept >= 0 and (kept, body.producer_epoch) not in (
            (known.producer_id, known.epoch),
            (known.producer_id, known.epoch - 1),
        ):
            return PRODUCER_FENCED, (-1, -1)
        elif known.open:
            self._end(known, committed=False)
        if kept < 0 or body.producer_epoch == known.epoch or known.epoch < 0:
            known.epoch += 1
        known.ended = None
        return 0, (known.producer_id, known.epoch)

    def answer(self, module: Any, api: int, body: Any, broker: Any, code: int) -> Any:
        """The response; ``code``: an error instead of doing it. ``broker``: id, host and port."""
        throttled = {"throttle_time": i32Timedelta.parse(timedelta())}
        match api:
            case 9:
                return self._fetched(module, body, code, throttled)
            case 10:
                return _found(module, body, broker, code, throttled)
            case 24:
                name = str(body.v3_and_below_transactional_id)
                asked = [
                    (str(t.name), int(p)) for t in body.v3_and_below_topics for p in t.partitions
                ]
                code = code or self.refuses(
                    name, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
                )
                if not code:
                    self.ids[name].places |= set(asked)
                return module.AddPartitionsToTxnResponse(
                    **throttled,
                    results_by_topic_v3_and_below=tuple(
                        module.AddPartitionsToTxnTopicResult(
                            name=topic,
                            results_by_partition=tuple(
                                module.AddPartitionsToTxnPartitionResult(
                                    partition_index=number, partition_error_code=ErrorCode(code)
                                )
                                for other, number in asked
                                if other == topic
                            ),
                        )
                        for topic in sorted({topic for topic, _ in asked})
                    ),
                )
            case 25:
                code = code or self._of(body)
                if not code:
                    self.ids[str(body.transactional_id)].groups.add(str(body.group_id))
                return module.AddOffsetsToTxnResponse(**throttled, error_code=ErrorCode(code))
            case 28:
                code = code or self._take_offsets(body)
                return module.TxnOffsetCommitResponse(
                    **throttled,
                    topics=tuple(
                        module.TxnOffsetCommitResponseTopic(
                            name=topic.name,
                            partitions=tuple(
                                module.TxnOffsetCommitResponsePartition(
                                    partition_index=each.partition_index, error_code=ErrorCode(code)
                                )
                                for each in topic.partitions
                            ),
                        )
                        for topic in body.topics
                    ),
                )
            case _:
                code, identity = (code, (-1, -1)) if code else self._end_asked(body)
                epoch = {}
                if body.__version__ >= _FIRST_END_WITH_EPOCH:
                    epoch = {"producer_id": identity[0], "producer_epoch": identity[1]}
                return module.EndTxnResponse(**throttled, error_code=ErrorCode(code), **epoch)

    def _of(self, body: Any) -> int:
        return self.refuses(str(body.transactional_id), body.producer_id, body.producer_epoch)

    def _take_offsets(self, body: Any) -> int:
        code = self._of(body)
        if code:
            return code
        known = self.ids[str(body.transactional_id)]
        if body.__version__ >= _FIRST_OFFSETS_THAT_ADD:
            known.groups.add(str(body.group_id))
        if str(body.group_id) not in known.groups:
            return INVALID_TXN_STATE
        for topic in body.topics:
            for each in topic.partitions:
                known.offsets[(str(topic.name), each.partition_index)] = each.committed_offset
        return 0

    def _fetched(self, module: Any, body: Any, code: int, throttled: Any) -> Any:
        """Where a group has got to; not what an open transaction may change (KIP-447)."""
        many = body.__version__ >= _FIRST_FETCH_OF_MANY
        (asked,) = body.groups if many else (body,)
        assert body.require_stable
        several = "s" if many else ""
        topic_kind = getattr(module, f"OffsetFetchResponseTopic{several}")
        kind = getattr(module, f"OffsetFetchResponsePartition{several}")
        open_places = {place for each in self.ids.values() for place in each.offsets}
        topics = tuple(
            topic_kind(
                name=topic.name,
                partitions=tuple(
                    kind(
                        partition_index=number,
                        committed_offset=-1 if unstable else self.offsets.get(place, -1),
                        metadata="",
                        error_code=ErrorCode(UNSTABLE_OFFSET_COMMIT if unstable else 0),
                    )
                    for number in topic.partition_indexes
                    for place in [(str(topic.name), int(number))]
                    for unstable in [place in open_places]
                ),
            )
            for topic in (() if code else asked.topics)
        )
        said = {"topics": topics, "error_code": ErrorCode(code)}
        if not many:
            return module.OffsetFetchResponse(**throttled, **said)
        group = module.OffsetFetchResponseGroup(group_id=asked.group_id, **said)
        return module.OffsetFetchResponse(**throttled, groups=(group,))

    def _end_asked(self, body: Any) -> tuple[int, tuple[int, int]]:
        """An end that is asked for again is the same end."""
        known = self.ids[str(body.transactional_id)]
        asked, now = (body.producer_id, body.producer_epoch), (known.producer_id, known.epoch)
        bumps = body.__version__ >= _FIRST_END_WITH_EPOCH
        if bumps and (asked[0], asked[1] + 1) == now and not known.open:
            return (0, now) if known.ended == body.committed else (INVALID_TXN_STATE, (-1, -1))
        if asked != now:
            return self._of(body), (-1, -1)
        if not known.open and not bumps:
            return (0, now) if known.ended == body.committed else (INVALID_TXN_STATE, (-1, -1))
        if not known.open and body.committed:
            return INVALID_TXN_STATE, (-1, -1)
        known.epoch += bumps
        self._end(known, committed=body.committed)
        return 0, (known.producer_id, known.epoch)

    def _end(self, known: Transactional, *, committed: bool) -> None:
        if committed:
            self.committed += known.values
            self.offsets.update(known.offsets)
        for topic, number in known.places:
            self._partitions[topic][number].mark(known.producer_id, known.epoch)
        known.ended = committed
        known.places, known.groups = set(), set()
        known.values, known.offsets = [], {}


def _found(module: Any, body: Any, broker: Any, code: int, throttled: Any) -> Any:
    node, host, port = (-1, "", -1) if code else broker
    where = {"node_id": node, "host": host, "port": port, "error_code": ErrorCode(code)}
    if hasattr(body, "coordinator_keys"):
        return module.FindCoordinatorResponse(
            **throttled,
            coordinators=tuple(
                module.Coordinator(key=key, error_message=None, **where)
                for key in body.coordinator_keys
            ),
        )
    return module.FindCoordinatorResponse(**throttled, error_message=None, **where)
