"""Names by OpenTelemetry's semantic conventions for Kafka, version 1.44, and those of 1.24.

Source: ``docs/messaging/kafka.md`` and ``docs/messaging/messaging-metrics.md`` of the conventions.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from aioproducer.errors import KafkaError, ProducerError
from aioproducer.model import AnyRecord, Node, RecordMetadata

__all__ = [
    "BATCH_COUNT",
    "CLIENT_ID",
    "DESTINATION",
    "ERROR_TYPE",
    "FAILED_COUNT",
    "NODE_ID",
    "OPERATION",
    "PARTITION",
    "REQUEST_SIZE",
    "SCHEMA_URL",
    "TOMBSTONE",
    "Attributes",
    "Conventions",
    "add_server",
    "error_attributes",
    "error_type",
]

Attributes: TypeAlias = dict[str, "str | int | bool"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
CLIENT_ID: Final = "messaging.client.id"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
KEY: Final = "messaging.kafka.message.key"
OFFSET: Final = "messaging.kafka.offset"
GROUP: Final = "messaging.consumer.group.name"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
BODY_SIZE: Final = "messaging.message.body.size"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"

MAY_HAVE_BEEN_WRITTEN: Final = "aioproducer.may_have_been_written"
FAILED_COUNT: Final = "aioproducer.batch.failed_count"
REQUEST_SIZE: Final = "aioproducer.request.size"
NODE_ID: Final = "aioproducer.node.id"

OLD_OPERATION: Final = "messaging.operation"
OLD_CLIENT_ID: Final = "messaging.client_id"
OLD_PARTITION: Final = "messaging.kafka.destination.partition"
OLD_OFFSET: Final = "messaging.kafka.message.offset"
OLD_GROUP: Final = "messaging.kafka.consumer.group"

OPERATION: Final[Attributes] = {SYSTEM: "kafka", OPERATION_NAME: "send", OPERATION_TYPE: "send"}
"""The attributes that all values of a metric have."""

_LONGEST_KEY: Final = 256


class Conventions:
    """The attributes of one client's spans and metrics. ``old``: those of 1.24 as well."""

    def __init__(self, client_id: str, *, old: bool, record_key: bool, body_size: bool) -> None:
        self.client_id = client_id
        self.old = old
        self._record_key = record_key
        self._body_size = body_size

    def operation(self, name: str = "send") -> Attributes:
        """An operation of the producer."""
        attributes = OPERATION | {OPERATION_NAME: name, CLIENT_ID: self.client_id}
        if self.old:
            attributes[OLD_OPERATION] = "publish"
            attributes[OLD_CLIENT_ID] = self.client_id
        return attributes

    def record(self, topic: str, key: object, partition: int | None) -> Attributes:
        """A record that is sent, by the arguments of its caller."""
        attributes = self.operation()
        attributes[DESTINATION] = topic
        if partition is not None:
            self._add_partition(attributes, partition)
        self._add_key(attributes, key)
        return attributes

    def delivery(self, metadata: RecordMetadata, node: Node | None) -> Attributes:
        """A record's place in its topic, as far as it is known."""
        attributes: Attributes = {}
        if metadata.partition >= 0:
            self._add_partition(attributes, metadata.partition)
        if metadata.offset >= 0:
            self._add_offset(attributes, metadata.offset)
        if self._body_size and metadata.serialized_value_size >= 0:
            attributes[BODY_SIZE] = metadata.serialized_value_size
        add_server(attributes, node)
        return attributes

    def process(self, group_id: str) -> Attributes:
        """The work of a member of ``group_id`` on records."""
        attributes = OPERATION | {
            OPERATION_NAME: "process",
            OPERATION_TYPE: "process",
            CLIENT_ID: self.client_id,
            GROUP: group_id,
        }
        if self.old:
            attributes[OLD_OPERATION] = "process"
            attributes[OLD_CLIENT_ID] = self.client_id
            attributes[OLD_GROUP] = group_id
        return attributes

    def consumed(self, record: AnyRecord) -> Attributes:
        """A record that was read, but for its topic."""
        attributes: Attributes = {}
        self._add_partition(attributes, record.partition)
        self._add_offset(attributes, record.offset)
        self._add_key(attributes, record.key)
        if record.value is None:
            attributes[TOMBSTONE] = True
        elif self._body_size and isinstance(record.value, bytes):
            attributes[BODY_SIZE] = len(record.value)
        return attributes

    def _add_key(self, attributes: Attributes, key: object) -> None:
        if self._record_key and key is not None:
            text = _key_text(key)
            if text is not None:
                attributes[KEY] = text

    def _add_offset(self, attributes: Attributes, offset: int) -> None:
        attributes[OFFSET] = offset
        if self.old:
            attributes[OLD_OFFSET] = offset

    def _add_partition(self, attributes: Attributes, partition: int) -> None:
        attributes[PARTITION] = str(partition)
        if self.old:
            attributes[OLD_PARTITION] = partition


def add_server(attributes: Attributes, node: Node | None) -> None:
    """Add the broker's address, if it is known."""
    if node is not None and node.host:
        attributes[SERVER_ADDRESS] = node.host
        attributes[SERVER_PORT] = node.port


def error_attributes(error: BaseException) -> Attributes:
    """The class of an error, and its statement about the log."""
    attributes: Attributes = {ERROR_TYPE: error_type(error)}
    if isinstance(error, ProducerError) and error.may_have_been_written:
        attributes[MAY_HAVE_BEEN_WRITTEN] = True
    return attributes


def error_type(error: BaseException) -> str:
    """Kafka's name of a broker's error, such as ``NOT_ENOUGH_REPLICAS``; else the class's name."""
    return error.name if isinstance(error, KafkaError) else type(error).__qualname__


def _key_text(key: object) -> str | None:
    """A key as text; None: it has no unambiguous one."""
    if isinstance(key, bytes) and len(key) <= _LONGEST_KEY:
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
        return key if key.isprintable() else None
    if isinstance(key, str):
        return key if len(key) <= _LONGEST_KEY else None
    return str(key) if type(key) is int else None
