"""Conversations in sessions of incremental fetches (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.conversation import Conversations
from tests.support.encoded_batches import batch, record

FETCH_SESSIONS: Final = Conversations()
conversation = FETCH_SESSIONS.held(2)
_NO_SESSION: Final = 0
_FULL: Final = 0


class Topics:
    """The topic of the chat and others, with one partition each, all led by the same broker."""

    def __init__(self, chat: Chat, number: int) -> None:
        self.chat = chat
        self.names = [chat.topic]
        self.ids: list[UUID] = [chat.topic_id]
        tried = 0
        while len(self.names) < number:
            self.add(f"{chat.topic}-{tried}")
            tried += 1

    def add(self, name: str) -> bool:
        """Create a topic, which is one of these if the broker leads it."""
        self.chat.line.create_topic(name, 1, {})
        topic_id, leader = self.described(name)
        if leader != self.chat.leader:
            return False
        self.chat.until_stable(0, name)
        self.names.append(name)
        self.ids.append(topic_id)
        return True

    def described(self, name: str) -> tuple[UUID, int]:
        """The id and the leader of a topic."""
        [topic] = self.chat.metadata({"topic_id": None, "name": name}, heard=False).topics
        return topic.topic_id, topic.partitions[0].leader_id

    def until(self, *, gone: bool) -> None:
        """Wait until the broker knows that the topic of the chat is gone, or there again."""
        for _ in range(400):
            topic = {"topic_id": None, "name": self.chat.topic}
            [shown] = self.chat.metadata(topic, heard=False).topics
            if bool(shown.error_code) is gone:
                return
            self.chat.line.wait(0.05)
        raise AssertionError(f"the topic never was {'gone' if gone else 'there'}")

    def name(self, number: int, version: int) -> dict[str, Any]:
        """How a request names a topic."""
        if version < 13:
            return {"topic": self.names[number]}
        return {"topic_id": self.ids[number]}

    def produce(self, number: int, size: int = 1) -> None:
        """Write records to a topic."""
        records = batch(b"".join(record(each) for each in range(size)), size)
        topic = {"name": self.names[number], "partition_data": [{"index": 0, "records": records}]}
        self.chat.ask(
            c.PRODUCE, 12, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[topic]
        )


class Fetching:
    """A client that fetches in a session; ``version``: of the requests."""

    def __init__(self, topics: Topics, version: int = 12) -> None:
        self.topics = topics
        self.version = version
        self.id = _NO_SESSION
        self.epoch = _FULL

    def fetch(
        self,
        named: Sequence[tuple[int, int]] = (),
        forgotten: Iterable[int] = (),
        *,
        max_bytes: int = 1_000_000,
        wait: int = 0,
        partition: int = 0,
    ) -> Any:
        """Name topics with offsets, and note the answer, with the places of its topics."""
        version, topics = self.version, self.topics
        body = topics.chat.ask(
            c.FETCH,
            version,
            replica_id=-1,
            max_wait_ms=wait,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[
                {
                    **topics.name(number, version),
                    "partitions": [
                        {
                            "partition": partition,
                            "fetch_offset": offset,
                            "partition_max_bytes": 1_000_000,
                        }
                    ],
                }
                for number, offset in named
            ],
            forgotten_topics_data=[
                {**topics.name(number, version), "partitions": [partition]} for number in forgotten
            ],
        )
        known: list[object] = list(topics.names if version < 13 else topics.ids)
        answered = [each.topic if version < 13 else each.topic_id for each in body.responses]
        topics.chat.note(("topics", [known.index(each) for each in answered]))
        topics.chat.note(("session", bool(body.session_id), body.session_id == self.id))
        if body.session_id and not body.error_code:
            self.id = body.session_id
            self.epoch += 1
        return body


@conversation
def a_session_from_its_beginning_to_its_end(chat: Chat) -> None:
    topics = Topics(chat, 3)
    client = Fetching(topics)
    client.fetch([(0, 0), (1, 0)])
    client.fetch()
    topics.produce(1, 2)
    client.fetch()
    client.fetch()
    client.fetch([(1, 2)])
    client.fetch([(2, 0)])
    client.fetch()
    client.fetch([], [0])
    topics.produce(0)
    client.fetch()
    client.fetch([], [1, 2])
    client.fetch()


@conversation
def sessions_by_topic_ids(chat: Chat) -> None:
    topics = Topics(chat, 2)
    client = Fetching(topics, 13)
    client.fetch([(0, 0), (1, 0)])
    topics.produce(0)
    client.fetch()
    client.fetch([(0, 1)])
    client.fetch([], [1])
    topics.produce(1)
    client.fetch()
    client.version = 12
    client.fetch()
    client.version = 16
    client.fetch()


@conversation
def epochs_and_ids_that_nobody_knows(chat: Chat) -> None:
    topics = Topics(chat, 1)
    client = Fetching(topics)
    client.fetch([(0, 0)])
    client.epoch += 1
    client.fetch()
    client.epoch -= 1
    client.fetch()
    right, client.id = client.id, client.id + 1
    client.fetch()
    client.id = right
    client.fetch()
    client.epoch = _FULL
    client.fetch([(0, 0)])
    new, client.id = client.id, right
    client.fetch()
    client.id = new
    client.fetch()
    client.epoch = -1
    client.fetch([(0, 0)])
    client.epoch = 3
    client.fetch()


@conversation
def partitions_with_records_come_last(chat: Chat) -> None:
    topics = Topics(chat, 3)
    for number in range(3):
        topics.produce(number)
    client = Fetching(topics)
    client.fetch([(0, 0), (1, 0), (2, 0)], max_bytes=1)
    for _ in range(4):
        client.fetch(max_bytes=1)
    client.fetch([(0, 1)], max_bytes=1)
    client.fetch([(1, 1)], max_bytes=1)
    client.fetch([(2, 1)], max_bytes=1)
    client.fetch()


@conversation
def errors_in_a_session(chat: Chat) -> None:
    topics = Topics(chat, 2)
    client = Fetching(topics)
    client.fetch([(0, 5), (1, 0)])
    client.fetch()
    client.fetch([(0, 0)])
    client.fetch()
    client.fetch([(0, 0)], partition=9)
    client.fetch()
    client.fetch([], [0], partition=9)
    client.fetch()


@conversation
def a_seek_to_the_end_is_answered_by_silence(chat: Chat) -> None:
    topics = Topics(chat, 1)
    topics.produce(0, 3)
    client = Fetching(topics)
    client.fetch([(0, 0)])
    client.fetch([(0, 3)])
    client.fetch([(0, 4)])
    client.fetch([(0, 3)])
    client.fetch()


@conversation
def deleted_records_are_news(chat: Chat) -> None:
    topics = Topics(chat, 1)
    topics.produce(0, 3)
    client = Fetching(topics)
    client.fetch([(0, 3)])
    client.fetch()
    partition = {"partition_index": 0, "offset": 2}
    chat.ask(
        c.DELETE_RECORDS,
        2,
        topics=[{"name": chat.topic, "partitions": [partition]}],
        timeout_ms=10_000,
    )
    client.fetch()
    client.fetch()


@conversation
def a_session_waits_for_records(chat: Chat) -> None:
    topics = Topics(chat, 1)
    client = Fetching(topics)
    client.fetch([(0, 0)], wait=100)
    client.fetch(wait=100)
    topics.produce(0)
    client.fetch(wait=100)


@conversation
def an_empty_session(chat: Chat) -> None:
    topics = Topics(chat, 1)
    client = Fetching(topics)
    client.fetch()
    client.fetch()
    client.epoch = _FULL
    client.fetch()
    client.fetch([(0, 0)])
    client.fetch([(0, 0)], [0])
    client.fetch()


@conversation
def a_topic_that_is_created_again(chat: Chat) -> None:
    topics = Topics(chat, 1)
    client, by_name = Fetching(topics, 13), Fetching(topics)
    client.fetch([(0, 0)])
    by_name.fetch([(0, 0)])
    topic = {"name": chat.topic, "topic_id": None}
    chat.ask(c.DELETE_TOPICS, 6, topics=[topic], timeout_ms=10_000)
    topics.until(gone=True)
    client.fetch()
    by_name.fetch()
    chat.line.create_topic(chat.topic, 1, {})
    topics.until(gone=False)
    client.fetch()
