"""The conversations. Each is held with a real Kafka and with the model, and must go the same way.

``any_protocol``: about what does not depend on the version of the protocol of transactions.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.conversation import Conversations
from tests.support.encoded_batches import NOW, batch, record, with_right_checksum

WRAP: Final = 2**31 - 1
HOUR_MS: Final = 3_600_000
_FIRST_END_WITH_BUMP: Final = 5
_MOST_RACES: Final = 20
CONVERSATIONS: Final = Conversations()
conversation = CONVERSATIONS.held
any_protocol = conversation(2)


# --- sequence numbers and epochs ---------------------------------------------------------------


@any_protocol
def sequences_without_a_gap(chat: Chat) -> None:
    producer = chat.init()
    for sequence, size in ((0, 1), (1, 3), (4, 2), (6, 1)):
        chat.produce(sequence, size, producer=producer)
    chat.fetch()


@any_protocol
def a_gap(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, 2, producer=producer)
    chat.produce(3, producer=producer)
    chat.produce(2, producer=producer)
    chat.produce(3, producer=producer)
    chat.fetch()


@any_protocol
def the_last_batch_twice(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, 3, producer=producer)
    chat.produce(0, 3, producer=producer)
    chat.produce(3, producer=producer)
    chat.produce(3, producer=producer)
    chat.produce(0, 3, producer=producer)
    chat.fetch()


@any_protocol
def a_duplicate_of_each_of_seven_batches(chat: Chat) -> None:
    producer = chat.init()
    for sequence in range(7):
        chat.produce(sequence, producer=producer)
    for sequence in range(7):
        chat.produce(sequence, producer=producer)
    chat.fetch()


@any_protocol
def duplicates_of_another_size(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, 2, producer=producer)
    chat.produce(2, 2, producer=producer)
    chat.produce(0, 1, producer=producer)
    chat.produce(2, 1, producer=producer)
    chat.produce(3, 1, producer=producer)
    chat.produce(0, 4, producer=producer)
    chat.produce(2, 3, producer=producer)
    chat.fetch()


@any_protocol
def an_unknown_producer_may_begin_anywhere(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(17, 2, producer=producer)
    chat.produce(19, producer=producer)
    chat.produce(0, producer=producer)
    chat.fetch()


@any_protocol
def an_unknown_epoch_may_begin_anywhere(chat: Chat) -> None:
    number, _ = chat.init()
    chat.produce(5, producer=(number, 3))
    chat.produce(6, producer=(number, 3))
    chat.produce(0, producer=(number, 2))


@any_protocol
def an_older_epoch(chat: Chat) -> None:
    number, epoch = chat.init()
    chat.produce(0, producer=(number, epoch + 2))
    chat.produce(0, producer=(number, epoch))
    chat.produce(1, producer=(number, epoch + 1))
    chat.produce(1, producer=(number, epoch + 2))


@any_protocol
def a_new_epoch_begins_at_zero(chat: Chat) -> None:
    number, epoch = chat.init()
    chat.produce(0, 3, producer=(number, epoch))
    chat.produce(3, producer=(number, epoch + 1))
    chat.produce(0, producer=(number, epoch + 1))
    chat.produce(0, 3, producer=(number, epoch))
    chat.produce(0, producer=(number, epoch + 1))
    chat.produce(1, producer=(number, epoch + 1))
    chat.produce(0, producer=(number, epoch + 7))
    chat.fetch()


@any_protocol
def sequences_wrap_around(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(WRAP - 2, 2, producer=producer)
    chat.produce(WRAP, producer=producer)
    chat.produce(0, 2, producer=producer)
    chat.produce(WRAP, producer=producer)
    chat.produce(2, producer=producer)
    chat.fetch()


@any_protocol
def a_batch_across_the_wrap(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(WRAP - 1, 4, producer=producer)
    chat.produce(WRAP - 1, 4, producer=producer)
    chat.produce(2, producer=producer)
    chat.produce(3, producer=producer)


@any_protocol
def two_producers_and_one_without_numbers(chat: Chat) -> None:
    one, two = chat.init(), chat.init()
    chat.produce(0, producer=one)
    chat.produce(0, producer=two)
    chat.produce(records=batch(record(0), 1))
    chat.produce(1, producer=one)
    chat.produce(0, producer=one)
    chat.produce(1, 2, producer=two)
    chat.produce(0, producer=two)
    chat.fetch()


@any_protocol
def a_producer_id_that_nobody_gave_out(chat: Chat) -> None:
    chat.produce(0, producer=(2**40, 0), version=9)
    chat.produce(1, producer=(2**40, 0), version=9)


@any_protocol
def a_producer_without_a_sequence_number(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(-1, producer=producer)
    chat.produce(0, producer=producer)


@conversation(2, message_timestamp_type="LogAppendTime")
def duplicates_with_the_time_of_the_broker(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, producer=producer)
    chat.produce(0, producer=producer)
    chat.produce(2, producer=producer)


# --- what is no batch --------------------------------------------------------------------------


@any_protocol
def a_wrong_checksum(chat: Chat) -> None:
    data = bytearray(batch(record(0), 1))
    data[-1] ^= 1
    chat.produce(records=bytes(data))
    chat.list_offsets(-1)


@any_protocol
def records_that_are_none(chat: Chat) -> None:
    chat.produce(records=batch(b"\x10abcdefgh", 1))
    chat.produce(records=batch(record(0), 2))
    chat.produce(records=batch(record(0) + record(1), 1))
    chat.produce(records=batch(record(0, length=400), 1))
    chat.list_offsets(-1)


@any_protocol
def a_count_that_contradicts_the_offsets(chat: Chat) -> None:
    chat.produce(records=batch(record(0) + record(1), 2, last_offset_delta=4))
    chat.produce(records=batch(record(0), 1, last_offset_delta=-1))
    chat.produce(records=batch(b"", 0, last_offset_delta=0))
    chat.produce(records=batch(b"", 0))


@any_protocol
def an_offset_of_the_producers_choice(chat: Chat) -> None:
    chat.produce(records=batch(record(0), 1, base_offset=7))


@any_protocol
def two_batches_or_none(chat: Chat) -> None:
    one = batch(record(0), 1)
    chat.produce(records=one + one)
    chat.produce(records=b"")
    chat.produce(records=one[:40])
    chat.produce(records=one + b"\0\0\0")


@any_protocol
def markers_of_a_client(chat: Chat) -> None:
    chat.produce(records=batch(record(0), 1, attributes=0x20))
    producer = chat.init()
    chat.produce(0, producer=producer, attributes=0x20)


@conversation(2, max_message_bytes="200")
def a_batch_that_is_too_large(chat: Chat) -> None:
    chat.produce(records=batch(record(0, b"x" * 150), 1))
    chat.produce(records=batch(record(0, b"x" * 50), 1))


@conversation(2, cleanup_policy="compact")
def a_compacted_topic_wants_keys(chat: Chat) -> None:
    chat.produce(records=batch(record(0), 1))
    chat.produce(records=batch(record(0, key=b"k") + record(1), 2))
    chat.produce(records=batch(record(0, key=b"k"), 1))


@conversation(
    2, message_timestamp_after_max_ms=str(HOUR_MS), message_timestamp_before_max_ms="1000"
)
def timestamps_out_of_range(chat: Chat) -> None:
    chat.produce(records=batch(record(0) + record(1), 2, timestamps=(1000, 1000)))
    chat.produce(records=batch(record(0), 1, timestamps=(4 * 10**12, 4 * 10**12)))


# --- acknowledgements and leaders --------------------------------------------------------------


@any_protocol
def acknowledgements(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, producer=producer, acks=1)
    chat.produce(1, producer=producer, acks=-1)
    chat.produce(2, producer=producer, acks=2)
    chat.produce(2, producer=producer, acks=0)
    chat.produce(3, producer=producer, acks=1)
    chat.until_stable(4)
    chat.fetch()


@any_protocol
def an_error_without_acknowledgement_ends_the_connection(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, producer=producer)
    chat.produce(5, producer=producer, acks=0)
    chat.fetch()


@any_protocol
def a_broker_that_does_not_lead(chat: Chat) -> None:
    producer = chat.init()
    for version in (9, 10, 12, 13):
        chat.produce(0, producer=producer, to=chat.followers[0], version=version)
    chat.produce(0, producer=producer, to=chat.followers[0], acks=0)
    chat.fetch(to=chat.followers[0])
    chat.fetch(to=chat.followers[0], version=16)


@any_protocol
def topics_that_do_not_exist(chat: Chat) -> None:
    partition = {"index": 0, "records": batch(record(0), 1)}
    there = {"index": 9, "records": batch(record(0), 1)}
    asked: dict[str, Any] = {"transactional_id": None, "acks": 1, "timeout_ms": 1000}
    chat.ask(c.PRODUCE, 12, **asked, topic_data=[{"name": "no", "partition_data": [partition]}])
    chat.ask(c.PRODUCE, 12, **asked, topic_data=[{"name": chat.topic, "partition_data": [there]}])
    unknown = UUID(int=7)
    chat.ask(
        c.PRODUCE, 13, **asked, topic_data=[{"topic_id": unknown, "partition_data": [partition]}]
    )
    topic, chat.topic = chat.topic, "no"
    chat.fetch(0, wait=5_000)
    chat.topic = topic
    chat.metadata({"topic_id": unknown, "name": None})
    chat.metadata({"topic_id": None, "name": "no"})


@any_protocol
def newer_versions_of_produce(chat: Chat) -> None:
    producer = chat.init()
    for sequence, version in enumerate(range(7, 14)):
        chat.produce(sequence, producer=producer, version=version)
        chat.produce(sequence, producer=producer, version=version)
        chat.produce(sequence + 3, producer=producer, version=version)


# --- reading -----------------------------------------------------------------------------------


@any_protocol
def reading_in_range_and_out_of_it(chat: Chat) -> None:
    chat.fetch()
    chat.produce(0, 3, producer=chat.init())
    for offset in (0, 1, 2, 3, 4, 100, -1):
        chat.fetch(offset)
    chat.fetch(0, version=16)
    chat.fetch(4, version=16)


@any_protocol
def reading_a_few_bytes(chat: Chat) -> None:
    producer = chat.init()
    for sequence in range(4):
        chat.produce(sequence, producer=producer)
    size = len(batch(record(0, b"0"), 1))
    for most in (1, size, size + 1, 2 * size, 2 * size + 20):
        chat.fetch(0, max_bytes=most)


@any_protocol
def reading_with_an_epoch_of_the_leader(chat: Chat) -> None:
    chat.produce(0, 3, producer=chat.init())
    for epoch in (-1, chat.leader_epoch, chat.leader_epoch + 1):
        chat.fetch(0, leader_epoch=epoch)
        chat.list_offsets(-1, -2, leader_epoch=epoch)
    chat.fetch(1, last_epoch=0)
    chat.fetch(1, last_epoch=4)
    chat.fetch(3, last_epoch=0)
    chat.fetch(9, last_epoch=0)


@any_protocol
def waiting_for_records(chat: Chat) -> None:
    chat.fetch(0, wait=100)
    chat.produce(0, producer=chat.init())
    chat.fetch(0, wait=100)
    chat.fetch(1, wait=100)


@any_protocol
def offsets_by_timestamps(chat: Chat) -> None:
    chat.list_offsets(-1, -2, -3, -4, NOW)
    for place, timestamp in enumerate((NOW, NOW + 500, NOW + 200)):
        records = record(0) + record(1, timestamp_delta=100)
        ends = (timestamp, timestamp + 100)
        chat.produce(records=batch(records, 2, timestamps=ends))
        chat.note(place)
    chat.list_offsets(-1, -2, -3, -4, NOW - 1, NOW, NOW + 50, NOW + 100, NOW + 300, NOW + 601)
    chat.list_offsets(-1, -2, -3, NOW, version=2)
    chat.list_offsets(-5, version=9)


@any_protocol
def ends_of_epochs(chat: Chat) -> None:
    chat.produce(0, 3, producer=chat.init())
    for epoch in (-1, 0, 1, 7):
        for current in (-1, chat.leader_epoch, 9):
            partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            chat.ask(
                c.EPOCH_ENDS,
                4,
                replica_id=-1,
                topics=[{"topic": chat.topic, "partitions": [partition]}],
            )


# --- administration ----------------------------------------------------------------------------


def _create(chat: Chat, name: str, *, partitions: int = 1, replicas: int = 1, **more: Any) -> None:
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in more.pop("config", ())],
    }
    body = chat.ask(
        c.CREATE_TOPICS,
        7,
        heard=False,
        topics=[topic],
        timeout_ms=10_000,
        validate_only=False,
        **more,
    )
    [row] = body.topics
    chat.note((c.ErrorCode(row.error_code).name, row.num_partitions, row.replication_factor))


@any_protocol
def creating_topics(chat: Chat) -> None:
    name = f"{chat.topic}-more"
    _create(chat, chat.topic)
    _create(chat, "no topic")
    _create(chat, "..")
    _create(chat, "")
    _create(chat, name, partitions=0)
    _create(chat, name, replicas=0)
    _create(chat, name, replicas=4)
    _create(chat, name, config=[("min.insync.replica", "1")])
    _create(chat, name, partitions=2, replicas=3)
    _create(chat, name)


@any_protocol
def adding_partitions_and_deleting_topics(chat: Chat) -> None:
    for count in (1, 3, 2):
        chat.ask(
            c.CREATE_PARTITIONS,
            3,
            topics=[{"name": chat.topic, "count": count, "assignments": None}],
            timeout_ms=10_000,
            validate_only=False,
        )
    for asked in (chat.topic, "no"):
        topic = {"name": asked, "topic_id": None}
        chat.ask(c.DELETE_TOPICS, 6, topics=[topic], timeout_ms=10_000)
    unknown = {"name": None, "topic_id": UUID(int=7)}
    chat.ask(c.DELETE_TOPICS, 6, topics=[unknown], timeout_ms=10_000)
    chat.ask(c.DELETE_TOPICS, 5, topic_names=("no",), timeout_ms=10_000)
    chat.ask(
        c.CREATE_PARTITIONS,
        3,
        topics=[{"name": "no", "count": 2, "assignments": None}],
        timeout_ms=10_000,
        validate_only=False,
    )


def _configs(chat: Chat, topic: str) -> None:
    resource = {
        "resource_type": 2,
        "resource_name": topic,
        "configuration_keys": ("min.insync.replicas", "max.message.bytes", "cleanup.policy"),
    }
    body = chat.ask(
        c.DESCRIBE_CONFIGS,
        4,
        heard=False,
        resources=[resource],
        include_synonyms=False,
        include_documentation=False,
    )
    [found] = body.results
    rows = sorted((each.name, each.value, each.config_source == 1) for each in found.configs)
    chat.note((c.ErrorCode(found.error_code).name, rows))


def _alter(chat: Chat, topic: str, name: str, operation: int, value: str | None) -> None:
    change = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": 2, "resource_name": topic, "configs": [change]}
    body = chat.ask(c.ALTER_CONFIGS, 1, heard=False, resources=[resource], validate_only=False)
    chat.note(c.ErrorCode(body.responses[0].error_code).name)
    chat.line.wait(0.3)


@conversation(2, min_insync_replicas="2")
def settings_of_a_topic(chat: Chat) -> None:
    _configs(chat, chat.topic)
    _configs(chat, "no")
    _alter(chat, chat.topic, "max.message.bytes", 0, "1000")
    _alter(chat, chat.topic, "min.insync.replicas", 1, None)
    _alter(chat, chat.topic, "cleanup.policy", 2, "compact")
    _configs(chat, chat.topic)
    _alter(chat, chat.topic, "cleanup.policy", 3, "delete")
    _configs(chat, chat.topic)
    _alter(chat, chat.topic, "no.setting", 0, "1")
    _alter(chat, "no", "retention.ms", 0, "1")


def _delete_records(chat: Chat, offset: int) -> None:
    row = {"partition_index": 0, "offset": offset}
    chat.ask(
        c.DELETE_RECORDS, 2, topics=[{"name": chat.topic, "partitions": [row]}], timeout_ms=10_000
    )


@any_protocol
def deleting_records(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, 2, producer=producer)
    chat.produce(2, 3, producer=producer)
    chat.until_stable(5)
    _delete_records(chat, 9)
    _delete_records(chat, 3)
    chat.list_offsets(-1, -2, NOW)
    for offset in (0, 2, 3, 5):
        chat.fetch(offset)
    _delete_records(chat, 1)
    _delete_records(chat, -1)
    chat.list_offsets(-1, -2)
    chat.produce(2, 3, producer=producer)
    chat.produce(5, producer=producer)
    chat.fetch(5)


# --- groups ------------------------------------------------------------------------------------


def _commit(chat: Chat, group: str, offset: int, *, to: int, partition: int = 0) -> None:
    row = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": 0,
        "committed_metadata": "said",
    }
    chat.ask(
        c.OFFSET_COMMIT,
        8,
        to=to,
        patient=True,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": chat.topic, "partitions": [row]}],
    )


def _committed(
    chat: Chat, group: str, *, to: int, stable: bool = True, patient: bool = False
) -> None:
    chat.ask(
        c.OFFSET_FETCH,
        7,
        to=to,
        patient=patient,
        group_id=group,
        topics=[{"name": chat.topic, "partition_indexes": (0, 5)}],
        require_stable=stable,
    )
    asked = {"group_id": group, "topics": [{"name": chat.topic, "partition_indexes": (0,)}]}
    chat.ask(c.OFFSET_FETCH, 8, to=to, patient=patient, groups=[asked], require_stable=stable)


@any_protocol
def offsets_of_a_group(chat: Chat) -> None:
    group = f"{chat.topic}-group"
    at = chat.coordinator(group, 0)
    _committed(chat, group, to=at, patient=True)
    _commit(chat, group, 7, to=at)
    _committed(chat, group, to=at)
    _commit(chat, group, 3, to=at)
    _commit(chat, group, 3, to=at, partition=4)
    _committed(chat, group, to=at)
    other = next(each for each in chat.line.brokers if each != at)
    _commit_elsewhere(chat, group, other)


def _commit_elsewhere(chat: Chat, group: str, other: int) -> None:
    asked = {"group_id": group, "topics": [{"name": chat.topic, "partition_indexes": (0,)}]}
    chat.ask(c.OFFSET_FETCH, 8, to=other, groups=[asked], require_stable=True)


@any_protocol
def groups_that_are_described(chat: Chat) -> None:
    group = f"{chat.topic}-group"
    at = chat.coordinator(group, 0)
    _committed(chat, group, to=at, patient=True)
    for version in (5, 6):
        for _ in range(2):
            chat.ask(
                c.DESCRIBE_GROUPS,
                version,
                to=at,
                groups=(group,),
                include_authorized_operations=False,
            )
            _commit(chat, group, 7, to=at)


@any_protocol
def coordinators(chat: Chat) -> None:
    for version in (1, 3):
        for key_type in (0, 1, 7):
            body = chat.ask(
                c.FIND_COORDINATOR,
                version,
                key=chat.topic,
                key_type=key_type,
                patient=True,
                heard=False,
            )
            chat.note((version, key_type, body.error_code, body.node_id > 0))
    transactional_id = f"{chat.topic}-elsewhere"
    at = chat.coordinator(transactional_id)
    other = next(each for each in chat.line.brokers if each != at)
    chat.ask(
        c.INIT_PRODUCER_ID,
        4,
        to=other,
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=-1,
        producer_epoch=-1,
    )


# --- transactions of version 1 -----------------------------------------------------------------

first = conversation(1, 2)
"""The first version of the protocol, which brokers of the second understand as well."""


@first
def a_transaction_is_committed(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.add_partitions(name, producer)
    chat.produce(0, 2, producer=producer, transactional_id=name)
    chat.produce(2, producer=producer, transactional_id=name)
    chat.fetch(committed=True)
    chat.fetch()
    chat.list_offsets(-1)
    chat.list_offsets(-1, committed=True)
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(4)
    chat.fetch(committed=True)
    chat.list_offsets(-1, committed=True)


@first
def a_transaction_is_aborted(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.produce(records=batch(record(0), 1))
    chat.add_partitions(name, producer)
    chat.produce(0, 2, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=False, version=4)
    chat.until_stable(4)
    for offset in (0, 1, 2, 3, 4):
        chat.fetch(offset, committed=True)
    chat.fetch(0)


@first
def sequences_go_on_after_a_transaction(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.add_partitions(name, producer)
    chat.produce(0, 2, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(3)
    chat.add_partitions(name, producer)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.produce(0, 2, producer=producer, transactional_id=name)
    chat.produce(2, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=False, version=3)
    chat.until_stable(4)
    chat.fetch(committed=True)


@first
def writing_without_adding_the_partition(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    for version in (9, 10, 11):
        chat.produce(0, producer=producer, transactional_id=name, version=version)
    chat.fetch()


@first
def writing_after_the_end(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.add_partitions(name, producer)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(2)
    chat.produce(1, producer=producer, transactional_id=name)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.produce(1, producer=producer, transactional_id=name, version=10)
    chat.fetch()


@first
def writing_outside_of_the_open_transaction(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.add_partitions(name, producer)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.produce(1, producer=producer)
    chat.produce(records=batch(record(0), 1))
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(3)
    chat.produce(1, producer=producer)
    chat.fetch()


@first
def a_transactional_batch_without_its_id(chat: Chat) -> None:
    producer = chat.init()
    chat.produce(0, producer=producer, attributes=c.TRANSACTIONAL)
    chat.produce(0, producer=producer, transactional_id=f"{chat.topic}-unknown", patient=True)


@first
def ends_that_are_repeated(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.end(name, producer, commit=True, version=4)
    chat.end(name, producer, commit=False, version=4)
    chat.add_partitions(name, producer)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(2)
    chat.end(name, producer, commit=True, version=4)
    chat.end(name, producer, commit=False, version=4)
    chat.add_partitions(name, producer)
    chat.end(name, producer, commit=False, version=4)
    chat.until_stable(3)
    chat.end(name, producer, commit=False, version=4)
    chat.end(name, producer, commit=True, version=4)


def _abort_before_the_markers(chat: Chat, version: int) -> None:
    """Commit, and abort the next transaction while the coordinator writes the commit's markers."""
    bump = version >= _FIRST_END_WITH_BUMP
    for number in range(_MOST_RACES):
        name = f"{chat.topic}-{number}"
        producer = chat.init(name, heard=False)
        following = producer[0], producer[1] + bump
        at = chat.coordinator(name)
        chat.add_partitions(name, producer, heard=False)
        ends = [
            chat.begin(
                c.END_TXN,
                version,
                to=at,
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=epoch,
                committed=commit,
            )
            for epoch, commit in ((producer[1], True), (following[1], False))
        ]
        codes = [chat.finish(each, heard=False).error_code for each in ends]
        if codes[-1] == c.ErrorCode.CONCURRENT_TRANSACTIONS:
            break  # else the markers may have been there already
    chat.note([c.ErrorCode(each).name for each in codes])
    chat.end(name, following, commit=False, version=version)


@first
def an_abort_before_the_markers_of_a_commit(chat: Chat) -> None:
    _abort_before_the_markers(chat, 4)


@first
def a_newer_producer_fences_the_older_one(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    old = chat.init(name)
    chat.add_partitions(name, old)
    chat.produce(0, producer=old, transactional_id=name)
    new = chat.init(name)
    chat.produce(1, producer=old, transactional_id=name)
    for version in (1, 3):
        chat.add_partitions(name, old, version=version)
    for version in (1, 4):
        chat.end(name, old, commit=True, version=version)
    chat.init(name, known=old, version=3)
    chat.init(name, known=old, version=4)
    chat.until_stable(2)
    chat.add_partitions(name, new)
    chat.produce(0, producer=new, transactional_id=name)
    chat.end(name, new, commit=True, version=4)
    chat.until_stable(4)
    chat.fetch(committed=True)


@first
def a_producer_that_goes_on_in_a_new_epoch(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    one = chat.init(name)
    two = chat.init(name, known=one)
    chat.init(name, known=one)
    three = chat.init(name, known=two)
    chat.init(name, known=(three[0], three[1] + 1))
    chat.init(name, known=(three[0] + 10**6, three[1]))
    chat.init(name, known=(three[0], -1))
    chat.init(name, known=one)
    chat.init(name)
    chat.init(name, known=three)


@first
def timeouts_and_names_that_are_refused(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    chat.init(name, timeout=0)
    chat.init(name, timeout=-1)
    chat.init(name, timeout=900_001)
    chat.init(name, timeout=900_000)
    chat.init("", timeout=1000)


@first
def strangers_in_a_transaction(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    stranger = (producer[0] + 10**6, 0)
    chat.add_partitions(name, stranger)
    chat.add_partitions(f"{chat.topic}-unknown", producer)
    chat.end(name, stranger, commit=True, version=4)
    chat.end(f"{chat.topic}-unknown", producer, commit=True, version=4)
    chat.add_partitions(name, (producer[0], producer[1] + 1))
    chat.end(name, (producer[0], producer[1] + 1), commit=True, version=4)


@first
def partitions_that_do_not_exist(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.ask(
        c.ADD_PARTITIONS,
        3,
        to=chat.coordinator(name),
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[{"name": chat.topic, "partitions": (0, 3)}],
    )
    chat.end(name, producer, commit=True, version=4)


@first
def two_open_transactions(chat: Chat) -> None:
    names = [f"{chat.topic}-{each}" for each in ("one", "two")]
    one, two = (chat.init(name) for name in names)
    chat.add_partitions(names[0], one)
    chat.add_partitions(names[1], two)
    chat.produce(0, producer=one, transactional_id=names[0])
    chat.produce(0, producer=two, transactional_id=names[1])
    chat.produce(1, producer=one, transactional_id=names[0])
    chat.end(names[0], one, commit=False, version=4)
    chat.until_stable(1)
    chat.fetch(committed=True)
    chat.list_offsets(-1, committed=True)
    chat.end(names[1], two, commit=True, version=4)
    chat.until_stable(5)
    for offset in range(6):
        chat.fetch(offset, committed=True)


@first
def a_transaction_beyond_its_time(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name, timeout=1000)
    chat.add_partitions(name, producer)
    chat.produce(0, producer=producer, transactional_id=name)
    chat.until_stable(2)
    chat.produce(1, producer=producer, transactional_id=name)
    chat.end(name, producer, commit=True, version=4)
    chat.add_partitions(name, producer)
    chat.init(name, known=producer)
    new = chat.init(name)
    chat.note(("epochs further", new[1] - producer[1]))
    chat.fetch(committed=True)


def _commit_in_transaction(
    chat: Chat, name: str, producer: tuple[int, int], group: str, offset: int, version: int
) -> None:
    row = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    chat.ask(
        c.TXN_OFFSETS,
        version,
        to=chat.coordinator(group, 0),
        patient=True,
        transactional_id=name,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": chat.topic, "partitions": [row]}],
    )


def _add_offsets(chat: Chat, name: str, producer: tuple[int, int], group: str) -> None:
    chat.ask(
        c.ADD_OFFSETS,
        3,
        to=chat.coordinator(name),
        patient=True,
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
    )


@first
def offsets_in_a_transaction(chat: Chat) -> None:
    name, group = f"{chat.topic}-id", f"{chat.topic}-group"
    at = chat.coordinator(group, 0)
    producer = chat.init(name)
    _add_offsets(chat, name, producer, group)
    _commit_in_transaction(chat, name, producer, group, 5, 3)
    _committed(chat, group, to=at)
    _committed(chat, group, to=at, stable=False)
    chat.end(name, producer, commit=True, version=4)
    _await_offsets(chat, group, at)
    _committed(chat, group, to=at)
    _add_offsets(chat, name, producer, group)
    _commit_in_transaction(chat, name, producer, group, 9, 3)
    chat.end(name, producer, commit=False, version=4)
    _await_offsets(chat, group, at)
    _committed(chat, group, to=at)


def _await_offsets(chat: Chat, group: str, at: int) -> None:
    """Wait until no transaction has offsets of the group any more."""
    asked = {"group_id": group, "topics": [{"name": chat.topic, "partition_indexes": (0,)}]}
    for _ in range(200):
        body = chat.ask(c.OFFSET_FETCH, 8, to=at, heard=False, groups=[asked], require_stable=True)
        if not body.groups[0].topics[0].partitions[0].error_code:
            return
        chat.line.wait(0.05)
    raise AssertionError("the offsets never became stable")


@first
def offsets_of_a_group_that_was_not_added(chat: Chat) -> None:
    name, group = f"{chat.topic}-id", f"{chat.topic}-group"
    producer = chat.init(name)
    for version in (3, 4):
        _commit_in_transaction(chat, name, producer, group, 5, version)
    _commit_in_transaction(chat, name, (producer[0], producer[1] + 1), group, 5, 3)
    _commit_in_transaction(chat, name, (producer[0] + 10**6, 0), group, 5, 3)


@first
def offsets_of_a_fenced_producer(chat: Chat) -> None:
    name, group = f"{chat.topic}-id", f"{chat.topic}-group"
    old = chat.init(name)
    _add_offsets(chat, name, old, group)
    _commit_in_transaction(chat, name, old, group, 5, 3)
    chat.init(name)
    _await_offsets(chat, group, chat.coordinator(group, 0))
    _commit_in_transaction(chat, name, old, group, 6, 3)
    _add_offsets(chat, name, old, group)
    _committed(chat, group, to=chat.coordinator(group, 0))


# --- transactions of version 2 -----------------------------------------------------------------

second = conversation(2)
"""KIP-890: partitions join by the produce request, and each end brings a new epoch."""


@second
def each_end_brings_a_new_epoch(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.produce(0, 2, producer=producer, transactional_id=name, version=12, patient=True)
    chat.produce(2, producer=producer, transactional_id=name, version=12)
    chat.fetch(committed=True)
    producer = chat.end(name, producer, commit=True, version=5)
    chat.until_stable(4)
    chat.produce(3, producer=producer, transactional_id=name, version=12, patient=True)
    chat.produce(0, producer=producer, transactional_id=name, version=12, patient=True)
    producer = chat.end(name, producer, commit=False, version=5)
    chat.until_stable(6)
    chat.note(producer[1])
    chat.fetch(committed=True)


@second
def the_epoch_of_the_ended_transaction(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    old = chat.init(name)
    chat.produce(0, producer=old, transactional_id=name, version=12)
    new = chat.end(name, old, commit=True, version=5)
    chat.until_stable(2)
    chat.produce(0, producer=old, transactional_id=name, version=12)
    chat.produce(1, producer=old, transactional_id=name, version=12)
    chat.produce(1, producer=new, transactional_id=name, version=12)
    chat.produce(0, producer=new, transactional_id=name, version=12)
    chat.produce(0, producer=new, transactional_id=name, version=12)
    chat.fetch()


@second
def an_unknown_producer_begins_at_zero(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.produce(3, producer=producer, transactional_id=name, version=12)
    chat.produce(0, producer=producer, transactional_id=name, version=12)
    chat.produce(2, producer=producer, transactional_id=name, version=12)
    chat.produce(1, producer=producer, transactional_id=name, version=12)
    chat.end(name, producer, commit=True, version=5)
    chat.until_stable(3)
    chat.fetch(committed=True)


@second
def ends_that_are_repeated_with_epochs(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.end(name, producer, commit=True, version=5)
    chat.produce(0, producer=producer, transactional_id=name, version=12)
    new = chat.end(name, producer, commit=True, version=5)
    chat.until_stable(2)
    chat.end(name, producer, commit=True, version=5)
    chat.end(name, producer, commit=False, version=5)
    chat.end(name, new, commit=True, version=5)
    newer = chat.end(name, new, commit=False, version=5)
    chat.end(name, new, commit=False, version=5)
    chat.end(name, new, commit=True, version=5)
    chat.end(name, newer, commit=True, version=5)
    newest = chat.end(name, newer, commit=False, version=5)
    chat.end(name, producer, commit=False, version=5)
    chat.end(name, (newest[0], newest[1] + 1), commit=False, version=5)


@second
def an_abort_in_the_next_epoch_before_the_markers_of_a_commit(chat: Chat) -> None:
    _abort_before_the_markers(chat, 5)


@second
def an_empty_transaction_is_aborted(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    producer = chat.end(name, producer, commit=False, version=5)
    chat.produce(0, producer=producer, transactional_id=name, version=12, patient=True)
    chat.end(name, producer, commit=True, version=5)
    chat.until_stable(2)
    chat.fetch(committed=True)


@second
def fencing_an_open_transaction_with_epochs(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    old = chat.init(name)
    chat.produce(0, producer=old, transactional_id=name, version=12)
    new = chat.init(name)
    chat.note(("epochs further", new[1] - old[1]))
    chat.until_stable(2)
    chat.produce(1, producer=old, transactional_id=name, version=12)
    chat.end(name, old, commit=True, version=5)
    chat.produce(0, producer=new, transactional_id=name, version=12, patient=True)
    chat.end(name, new, commit=True, version=5)
    chat.until_stable(4)
    chat.fetch(committed=True)


@second
def going_on_in_a_new_epoch_after_an_end(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    one = chat.init(name)
    chat.produce(0, producer=one, transactional_id=name, version=12)
    two = chat.end(name, one, commit=False, version=5)
    chat.until_stable(2)
    three = chat.init(name, known=two)
    chat.note(three[1] - two[1])
    chat.init(name, known=two)
    chat.init(name, known=one)
    chat.produce(0, producer=three, transactional_id=name, version=12)
    chat.produce(0, producer=two, transactional_id=name, version=12)


@second
def offsets_join_by_themselves(chat: Chat) -> None:
    name, group = f"{chat.topic}-id", f"{chat.topic}-group"
    at = chat.coordinator(group, 0)
    producer = chat.init(name)
    _commit_in_transaction(chat, name, producer, group, 5, 5)
    _committed(chat, group, to=at)
    new = chat.end(name, producer, commit=True, version=5)
    _await_offsets(chat, group, at)
    _committed(chat, group, to=at)
    _commit_in_transaction(chat, name, producer, group, 6, 5)
    _commit_in_transaction(chat, name, new, group, 7, 5)
    chat.end(name, new, commit=False, version=5)
    _await_offsets(chat, group, at)
    _committed(chat, group, to=at)


@second
def writing_while_fenced_by_a_timeout(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name, timeout=1000)
    chat.produce(0, producer=producer, transactional_id=name, version=12)
    chat.until_stable(2)
    chat.produce(1, producer=producer, transactional_id=name, version=12)
    chat.produce(0, producer=producer, transactional_id=name, version=12)
    chat.end(name, producer, commit=True, version=5)
    new = chat.init(name)
    chat.note(("epochs further", new[1] - producer[1]))


@second
def ends_of_both_versions(chat: Chat) -> None:
    name = f"{chat.topic}-id"
    producer = chat.init(name)
    chat.produce(0, producer=producer, transactional_id=name, version=12)
    chat.end(name, producer, commit=True, version=4)
    chat.until_stable(2)
    chat.produce(1, producer=producer, transactional_id=name, version=12, patient=True)
    new = chat.end(name, producer, commit=True, version=5)
    chat.until_stable(4)
    chat.note(new[1] - producer[1])
    chat.fetch(committed=True)


@any_protocol
def a_batch_with_the_right_checksum_and_a_wrong_magic(chat: Chat) -> None:
    data = bytearray(batch(record(0), 1))
    data[16] = 1
    chat.produce(records=bytes(data))
    data[16] = 3
    chat.produce(records=with_right_checksum(data))
