"""One side of a conversation: asks brokers, and writes down what they answer.

Answers are written down in a form that does not depend on the cluster: producer ids by the order in
which they came up, members of groups as well, brokers by their part, no topic ids, no texts, no
times of brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from aioproducer.engine.records.encoded_batch import batches_in
from aioproducer.errors.broker import ErrorCode as ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.messages import read_response, write_request
from tests.support.conversations.lines import Line
from tests.support.encoded_batches import NOW, batch, record

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
LIST_GROUPS, GROUP_HEARTBEAT, GROUP_DESCRIBE = 16, 68, 69
API_VERSIONS, INIT_PRODUCER_ID, EPOCH_ENDS = 18, 22, 23
DESCRIBE_GROUPS, CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS = 15, 19, 20, 21
DESCRIBE_CONFIGS, CREATE_PARTITIONS, ALTER_CONFIGS = 32, 37, 44
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSETS = 24, 25, 26, 28

TRANSACTIONAL: Final = 0x10
_ANYWHERE: Final = TopicPartition("", 0)
_HIDDEN: Final = frozenset(
    (
        "throttle_time_ms",
        "error_message",
        "batch_index_error_message",
        "node_endpoints",
        "session_id",
        "topic_id",
        "cluster_id",
        "controller_id",
        "host",
        "client_host",
        "port",
        "rack",
        "name",
        "topic",
        "group_id",
        "config_type",
        "synonyms",
        "documentation",
    )
)
"""Fields that no two clusters have in common."""
_SETS: Final = ("partitions", "subscribed_topic_names")
"""Fields with numbers and names in any order."""
_EMBEDDED: Final = ("assignment", "metadata", "member_assignment", "member_metadata")
"""Fields with what members tell each other."""
_PATIENT: Final = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # a coordinator that can't be asked yet
    )
)
_NEVER: Final = str(2**63 - 1)
"""A fetch reads one segment, and the batches here are old: a marker would begin another one."""
_PAUSE: Final = 0.05
_TRIES: Final = 400


class Asked(NamedTuple):
    """A request that waits for its response."""

    api: int
    version: int
    broker: int
    party: str


class Chat:
    """A conversation with one cluster; its topic has one partition."""

    def __init__(self, line: Line, name: str, config: Mapping[str, str] | None = None) -> None:
        self.line = line
        self.said: list[object] = []
        """What the brokers answered, in order."""
        self.topic = f"{name}-{uuid4().hex}"
        self._correlation = count()
        self._producers: dict[int, str] = {-1: "-1"}
        self._members: dict[str, str] = {"": ""}
        line.create_topic(self.topic, 1, {"segment.ms": _NEVER, **(config or {})})
        self.leader = line.brokers[0]
        shown = self.metadata({"topic_id": None, "name": self.topic}, heard=False)
        [topic] = shown.topics
        self.topic_id: UUID = topic.topic_id
        self.leader = topic.partitions[0].leader_id
        self.followers = [each for each in line.brokers if each != self.leader]
        self.leader_epoch: int = topic.partitions[0].leader_epoch
        self.until_stable(0)

    # --- asking ----------------------------------------------------------------------------

    def ask(
        self,
        api: int,
        version: int,
        *,
        to: int | None = None,
        heard: bool = True,
        patient: bool = False,
        answered: bool = True,
        party: str = "",
        **values: Any,
    ) -> Any:
        """Ask the leader, or broker ``to``; ``patient``: until what keeps it busy is over.

        Each ``party`` has connections of its own.
        """
        for _ in range(_TRIES):
            asked = self.begin(api, version, to=to, party=party, **values)
            if not answered:
                self.said.append("unanswered")
                return None
            body = self.finish(asked, heard=False)
            if not patient or body is None or not _PATIENT & set(_codes(body)):
                break
            self.line.wait(_PAUSE)
        if heard and body is not None:
            self.said.append(self._plain(body))
        return body

    def begin(
        self, api: int, version: int, *, to: int | None = None, party: str = "", **values: Any
    ) -> Asked:
        """Ask as :meth:`ask` does, and wait for no response."""
        broker = self.leader if to is None else to
        frame = write_request(api, version, next(self._correlation), "conversation", values)
        self.line.send(broker, frame, party)
        return Asked(api, version, broker, party)

    def finish(self, asked: Asked, *, heard: bool = True) -> Any:
        """The response of a request that was begun."""
        response = self.line.response(asked.broker, asked.party)
        if response is None:
            self.said.append("closed")
            return None
        _, body = read_response(asked.api, asked.version, response)
        if heard:
            self.said.append(self._plain(body))
        return body

    def note(self, what: object) -> None:
        """Write something else down."""
        self.said.append(what)

    # --- usual requests --------------------------------------------------------------------

    def metadata(self, topic: dict[str, Any], *, heard: bool = True) -> Any:
        """What brokers tell of a topic, which is not made by asking."""
        return self.ask(
            METADATA,
            12,
            heard=heard,
            topics=[topic],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )

    def init(
        self,
        transactional_id: str | None = None,
        *,
        known: tuple[int, int] = (-1, -1),
        version: int = 5,
        timeout: int = 60_000,
        patient: bool = True,
        heard: bool = True,
    ) -> tuple[int, int]:
        """A producer id and its epoch; ``known``: those that the producer has."""
        to = self.coordinator(transactional_id) if transactional_id else None
        body = self.ask(
            INIT_PRODUCER_ID,
            version,
            to=to,
            heard=heard,
            patient=patient,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout,
            producer_id=known[0],
            producer_epoch=known[1],
        )
        return body.producer_id, body.producer_epoch

    def coordinator(self, key: str, key_type: int = 1) -> int:
        """The broker that coordinates a transactional id (1) or a group (0)."""
        body = self.ask(
            FIND_COORDINATOR,
            4,
            key_type=key_type,
            coordinator_keys=[key],
            heard=False,
            patient=True,
        )
        return int(body.coordinators[0].node_id)

    def produce(
        self,
        sequence: int = -1,
        size: int = 1,
        *,
        producer: tuple[int, int] = (-1, -1),
        transactional_id: str | None = None,
        version: int = 11,
        acks: int = -1,
        to: int | None = None,
        records: bytes | None = None,
        timestamp: int = NOW,
        patient: bool = False,
        **fields_of_batch: Any,
    ) -> Any:
        """Send a batch of ``size`` records; in a transaction with ``transactional_id``."""
        if records is None:
            attributes = TRANSACTIONAL if transactional_id else 0
            records = batch(
                b"".join(record(each, b"%d" % (sequence + each)) for each in range(size)),
                size,
                **{
                    "producer": (*producer, sequence),
                    "attributes": attributes,
                    "timestamps": (timestamp, timestamp),
                    **fields_of_batch,
                },
            )
        topic = {"name": self.topic} if version < 13 else {"topic_id": self.topic_id}
        return self.ask(
            PRODUCE,
            version,
            to=to,
            patient=patient,
            answered=acks != 0,
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[{**topic, "partition_data": [{"index": 0, "records": records}]}],
        )

    def fetch(
        self,
        offset: int = 0,
        *,
        committed: bool = False,
        version: int = 12,
        leader_epoch: int = -1,
        last_epoch: int = -1,
        max_bytes: int = 1_000_000,
        to: int | None = None,
        wait: int = 0,
    ) -> Any:
        """What is in the log from ``offset`` on."""
        partition = {
            "partition": 0,
            "current_leader_epoch": leader_epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": last_epoch,
            "partition_max_bytes": max_bytes,
        }
        topic = {"topic": self.topic} if version < 13 else {"topic_id": self.topic_id}
        return self.ask(
            FETCH,
            version,
            to=to,
            replica_id=-1,
            max_wait_ms=wait,
            min_bytes=1,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=[{**topic, "partitions": [partition]}],
            forgotten_topics_data=[],
        )

    def list_offsets(
        self, *timestamps: int, committed: bool = False, leader_epoch: int = -1, version: int = 7
    ) -> Any:
        """The offsets of timestamps, or of -1 (latest), -2 (earliest), -3 (greatest)."""
        for timestamp in timestamps:
            partition = {
                "partition_index": 0,
                "current_leader_epoch": leader_epoch,
                "timestamp": timestamp,
            }
            self.ask(
                LIST_OFFSETS,
                version,
                replica_id=-1,
                isolation_level=int(committed),
                topics=[{"name": self.topic, "partitions": [partition]}],
            )

    def add_partitions(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        *,
        version: int = 3,
        heard: bool = True,
    ) -> Any:
        """Let the transaction know the topic (version 1 of the protocol)."""
        return self.ask(
            ADD_PARTITIONS,
            version,
            to=self.coordinator(transactional_id),
            heard=heard,
            patient=True,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": self.topic, "partitions": [0]}],
        )

    def end(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        *,
        commit: bool,
        version: int,
    ) -> tuple[int, int]:
        """End the transaction, and wait until it has ended.

        Returns the producer id and epoch that follow (version 5).
        """
        asked: dict[str, Any] = {
            "to": self.coordinator(transactional_id),
            "patient": True,
            "transactional_id": transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "committed": commit,
        }
        body = self.ask(END_TXN, version, **asked)
        if not body.error_code:
            self.ask(END_TXN, version, heard=False, **asked)
        return getattr(body, "producer_id", -1), getattr(body, "producer_epoch", -1)

    def until_stable(self, offset: int, topic: str | None = None) -> None:
        """Wait until the last stable offset of the topic, or of another one, is ``offset``."""
        for _ in range(_TRIES):
            body = self.ask(
                FETCH,
                12,
                heard=False,
                replica_id=-1,
                max_wait_ms=0,
                min_bytes=0,
                isolation_level=1,
                session_epoch=-1,
                topics=[
                    {
                        "topic": topic or self.topic,
                        "partitions": [
                            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
                        ],
                    }
                ],
                forgotten_topics_data=[],
            )
            if body.responses[0].partitions[0].last_stable_offset >= offset:
                return
            self.line.wait(_PAUSE)
        raise AssertionError(f"the last stable offset never became {offset}")

    # --- writing down ----------------------------------------------------------------------

    def _plain(self, value: Any, name: str = "") -> object:
        if name == "producer_id":
            return self._producers.setdefault(int(value), f"producer {len(self._producers)}")
        if name in ("member_id", "leader"):
            return self._members.setdefault(str(value), f"member {len(self._members)}")
        if isinstance(value, str):
            return value.replace(self.topic, "topic")
        if name in _EMBEDDED and isinstance(value, bytes):
            return value.replace(self.topic.encode(), b"topic")
        if name in _SETS and not any(hasattr(each, "_asdict") for each in value):
            return sorted(self._plain(each) for each in value)  # type: ignore[type-var]
        if name == "records":
            return list(self._batches(bytes(value or b"")))
        if name in ("node_id", "leader_id"):
            return {-1: -1, self.leader: "leader"}.get(value, "follower")
        if name == "log_append_time_ms" and value not in (-1, NOW):
            return "a time"
        if name == "error_code" or name == "partition_error_code":
            return ErrorCode(value).name
        if hasattr(value, "_asdict"):
            return {
                each: self._plain(inner, each)
                for each, inner in value._asdict().items()
                if each not in _HIDDEN
            }
        if isinstance(value, tuple):
            return sorted((self._plain(each) for each in value), key=_place)
        return value

    def _batches(self, data: bytes) -> Iterator[object]:
        for each in batches_in(data, _ANYWHERE, check_crcs=True):
            yield {
                "offsets": (each.base_offset, each.last_offset),
                "leader epoch": each.partition_leader_epoch,
                "attributes": each.attributes,
                "producer": self._plain(each.producer_id, "producer_id"),
                "epoch": each.producer_epoch,
                "sequence": each.base_sequence,
                "ends": each.control_type,
                "records": b"" if each.is_control else bytes(each.decompressed(1_000_000)),
            }
        if not list(batches_in(data, _ANYWHERE, check_crcs=True)) and data:
            yield f"{len(data)} bytes without a whole batch"


def _place(row: object) -> str:
    """Brokers answer rows of partitions, of topics and of brokers in any order."""
    if not isinstance(row, dict):
        return ""
    keys = ("partition_index", "index", "partition", "node_id", "member_id")
    return next((str(row[key]) for key in keys if key in row), repr(row))


def _codes(value: Any) -> Iterator[ErrorCode]:
    """All error codes in a response."""
    if hasattr(value, "_asdict"):
        for each, inner in value._asdict().items():
            if each in ("error_code", "partition_error_code"):
                yield ErrorCode(inner)
            else:
                yield from _codes(inner)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for each in value:
            yield from _codes(each)
