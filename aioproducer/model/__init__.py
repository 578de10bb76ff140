"""The nouns of the clients: records, their destinations and their offsets."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, NewType, TypeAlias

from aioproducer.model.type_parameters import K_co, ReadKey, ReadValue, V_co

Header: TypeAlias = tuple[str, bytes | None]
"""A header of a record: its key, and its value or None."""

Headers: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""The headers of a record as an argument: a mapping, or pairs (keys can repeat). ``str`` values
become UTF-8."""


BigInt: TypeAlias = int
"""An offset or a time as a peer or a caller gives it: sums of it may exceed the 64 bits of C."""

BatchOrder: TypeAlias = int
"""A batch's place among the batches of its partition, in the order of their first sends."""


class TopicPartition(NamedTuple):
    """A partition of a topic; prints as ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker's identity and address."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return address_of(self.host, self.port)

    def __str__(self) -> str:
        return f"broker {self.id} ({self.address})"


class PartitionInfo(NamedTuple):
    """A partition and its brokers. Source: Kafka's ``PartitionInfo``."""

    topic: str
    partition: int
    leader: Node | None
    """The broker that accepts records; None if there is no leader."""
    replicas: tuple[Node, ...]
    """All assigned replicas. Port -1: the broker's address is not in the metadata."""
    in_sync_replicas: tuple[Node, ...]
    """The replicas that have all committed records, including the leader."""
    offline_replicas: tuple[Node, ...] = ()
    """The replicas that are down."""


BootstrapId = NewType("BootstrapId", str)
"""The id of a bootstrap server, ``-1``, ``-2``, … in metrics. It equals no broker's id."""

NodeId: TypeAlias = int | BootstrapId
"""The id of a connection's other end."""


class BootstrapServer(NamedTuple):
    """An address for requests as long as no broker is known. It leads no partition."""

    id: BootstrapId
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return address_of(self.host, self.port)

    def __str__(self) -> str:
        return f"bootstrap server {self.address}"


Peer: TypeAlias = Node | BootstrapServer
"""A server to connect to, for requests that any broker can serve."""


def address_of(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets, and in escapes a host that no text can show."""
    host = host if host.isprintable() else ascii(host)[1:-1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def has_name(host: str) -> bool:
    """False if nothing can have the name ``host``: it has no letter or digit (``.``, ``%eth0``), or
    a character that can't be shown."""
    return host.isprintable() and any(map(str.isalnum, host.partition("%")[0]))


def is_loopback(host: str) -> bool:
    """True if ``host`` is this machine: an address of its loopback, or ``localhost`` (RFC 6761)."""
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith(".localhost")


_EVENT_HUBS = (
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
)


def is_event_hubs(host: str) -> bool:
    """True for a name of Azure Event Hubs."""
    return host.lower().rstrip(".").endswith(_EVENT_HUBS)


class Value:
    """The methods of frozen dataclasses, which ``dataclass`` would compile for each class.

    That would add some tenths of a millisecond a class to the start of every process.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def _values(self) -> list[Any]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((*self._values(),))

    def __repr__(self) -> str:
        named = zip(self.__dataclass_fields__, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={it!r}' for name, it in named)})"


_NULL: Any = None
"""Kafka's null, which a record of every type may have."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerRecord(Value, Generic[K_co, V_co]):
    """A record to send: an alternative to the arguments of ``send()``."""

    topic: str
    value: V_co
    """None is a tombstone, which deletes the key on a compacted topic."""
    key: K_co = _NULL
    partition: int | None = None
    headers: Headers | None = None
    timestamp_ms: int | None = None
    """Milliseconds since the epoch; None: the time of the ``send()`` call."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types: object) -> "type[ProducerRecord]":
            """The class itself: Python 3.11's alias of a class fails to make frozen objects."""
            return cls

    def fields(self) -> tuple[str, V_co, K_co, int | None, Headers | None, int | None]:
        """Topic, value, key, partition, headers and timestamp."""
        return (
            self.topic,
            self.value,
            self.key,
            self.partition,
            self.headers,
            self.timestamp_ms,
        )


class ConsumerRecord(NamedTuple, Generic[ReadKey, ReadValue]):
    """A record that was read. Source: Kafka's ``ConsumerRecord``.

    The key and the value are bytes, or objects of the consumer's deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """Milliseconds since the epoch; -1: the record has none."""
    timestamp_type: str
    """``CreateTime``: the producer's time; ``LogAppendTime``: the broker's."""
    key: ReadKey | None
    value: ReadValue | None
    headers: tuple[Header, ...]
    """The headers as pairs; keys can repeat. As in Java, bytes of a key that are not UTF-8 become
    U+FFFD."""
    leader_epoch: int | None = None
    """The epoch of the leader that wrote the record; None: the batch does not contain it."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was read from."""
        return TopicPartition(self.topic, self.partition)


AnyRecord: TypeAlias = ConsumerRecord[Any, Any]
"""A record with bytes or with objects."""


class OffsetAndMetadata(NamedTuple):
    """A consumed offset to commit. Source: Kafka's ``OffsetAndMetadata``."""

    offset: int
    """The offset of the next record to read."""
    metadata: str = ""
    leader_epoch: int | None = None


class ConsumerGroupMetadata(NamedTuple):
    """Identifies a consumer as a member of a group in one generation (KIP-447).

    Source: Kafka's ``ConsumerGroupMetadata``. With only ``group_id``, the group does not check that
    the consumer still owns the partitions; then only the transactional id fences other instances.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransactionHandle(Value):
    """Lets a producer in any process write into an open transaction, or end it.

    A handle can be pickled. Anyone with the handle can commit, so give it only to trusted code.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    """The version of the transaction protocol (KIP-890): with 1 the client adds partitions to the
    transaction, with 2 the brokers do."""


class RecordMetadata(NamedTuple):
    """Where a record was written: partition, offset and timestamp. Source: Kafka's
    ``RecordMetadata``."""

    topic: str
    partition: int
    offset: int
    """The record's offset in its partition; -1 with ``acks=0``, or for a duplicate whose offset
    the broker no longer knew."""
    timestamp_ms: int
    """The record's timestamp, or the broker's if the topic uses ``LogAppendTime``."""
    serialized_key_size: int
    """The size of the key in bytes; -1 without a key."""
    serialized_value_size: int
    """The size of the value in bytes; -1 without a value."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was written to."""
        return TopicPartition(self.topic, self.partition)


class FailedRecord(NamedTuple):
    """A record whose delivery finally failed, as passed to the hook ``on_failed``.

    The hook gets every such record once, after its future has the error, in the order of failure.
    It does not get:

    - records that ``send()`` refused, or that ``send_many()`` reports as refused: the caller has
      the error (from the blocking producer, through the future);
    - records that could not be serialized: their serializer failed, or was not prepared in time;
    - records that were cancelled before they were in a batch;
    - records of a transaction that is aborted, fenced or still open at close: the application sends
      them again in the next transaction. If a record's own delivery failed in a transaction, the
      hook does get it, because it is the reason for the abort.
    """

    topic: str
    partition: int | None
    """The partition; None: no partition was chosen yet."""
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    """Milliseconds since the epoch."""
    error: BaseException
    """The error, which the record's future also raises."""
    may_have_been_written: bool
    """True if the record may be in the log: see :class:`ProducerError`."""
