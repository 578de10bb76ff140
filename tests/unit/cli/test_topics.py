"""The commands for topics and the cluster: arguments, confirmation, lines and JSON."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from aioproducer.admin import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.cli import topics
from aioproducer.cli.app import run
from aioproducer.cli.cluster import fields, lines
from aioproducer.cli.topics import replica_lists, topic_fields, topic_lines, topic_settings
from aioproducer.errors import (
    ConfigError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

DELETE = ["topics", "delete", "a", "b", "c", "--yes", "-b", "host:9092"]


class Changes:
    """The part of an Admin that creates and deletes topics; each deletion takes ``seconds``.

    ``missing``: a topic that does not exist, all others do. ``repeated``: the first attempt of each
    change got no response.
    """

    def __init__(self, missing: str = "", seconds: float = 0.0, *, repeated: bool = False) -> None:
        self.timeouts: list[float] = []
        self._missing = missing
        self._seconds = seconds
        self._repeated = repeated

    async def create_topics(self, topics: list[NewTopic], **_: Any) -> dict[str, CreatedTopic]:
        raise self._doubtful(TopicAlreadyExistsError(f"topic {topics[0].name!r}: it exists"))

    async def delete_topics(self, name: str, *, timeout: float) -> None:
        self.timeouts.append(timeout)
        await asyncio.sleep(self._seconds)
        if name == self._missing:
            error = UnknownTopicOrPartitionError(f"topic {name!r}: there is no such topic")
            raise self._doubtful(error)

    def _doubtful(self, error: KafkaError) -> KafkaError:
        error.may_have_been_written = self._repeated
        return error


def use(monkeypatch: pytest.MonkeyPatch, admin: Changes) -> None:
    def call_admin(call: Callable[[Any], Awaitable[Any]], *_: Any) -> Any:
        async def called() -> Any:
            return await call(admin)

        return asyncio.run(called())

    monkeypatch.setattr(topics, "call_admin", call_admin)


def test_an_error_names_the_topics_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, Changes(missing="c"))
    assert run(DELETE) == 1
    told, error = capsys.readouterr()
    assert (told, error.count("\n")) == ("", 1)
    assert "topic 'c'" in error
    assert error.endswith("there is no such topic; deleted: a, b\n")


@pytest.mark.parametrize("repeated", [True, False])
def test_a_missing_topic_counts_as_deleted_after_an_attempt_without_a_response(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, repeated: bool
) -> None:
    use(monkeypatch, Changes(missing="b", repeated=repeated))
    assert run([*DELETE, "--if-exists", "--json"]) == 0
    told, error = capsys.readouterr()
    assert json.loads(told) == {"deleted": ["a", "b", "c"] if repeated else ["a", "c"]}
    assert ("topic 'b': there is no such topic" in error) is repeated


@pytest.mark.parametrize(("repeated", "created"), [(True, None), (False, False)])
def test_it_is_unknown_who_created_a_topic_after_an_attempt_without_a_response(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    repeated: bool,
    created: bool | None,
) -> None:
    use(monkeypatch, Changes(repeated=repeated))
    create = ["topics", "create", "a", "--if-not-exists", "-b", "host:9092"]
    assert run([*create, "--json"]) == 0
    told, error = capsys.readouterr()
    assert json.loads(told)["created"] is created
    assert ("topic 'a': it exists" in error) is repeated


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_change_is_done_though_nobody_reads_its_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    use(monkeypatch, Changes())
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert run([*DELETE, *options]) == 0
    assert capsys.readouterr().err == ""


def test_the_timeout_is_of_all_topics_together(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Changes(seconds=0.02)
    use(monkeypatch, admin)
    assert run([*DELETE, "--timeout", "5"]) == 0
    assert 5 >= admin.timeouts[0] > admin.timeouts[1] > admin.timeouts[2]


ORDERS = TopicDescription(
    "orders",
    UUID(int=7),
    False,
    (
        PartitionDescription(0, 11, 4, (11, 2), (11, 2)),
        PartitionDescription(1, None, 5, (2, 11), (), (11, 2)),
    ),
    {
        "retention.ms": ConfigEntry("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG"),
        "cleanup.policy": ConfigEntry("cleanup.policy", "delete", "DEFAULT_CONFIG"),
    },
)


def test_a_topic_as_lines() -> None:
    assert list(topic_lines(ORDERS, 2)) == [
        "orders: 2 partitions, 2 replicas each",
        "  retention.ms=5",
        "  partition  leader  replicas  in sync",
        "  0          11      11,2      11,2",
        "  1          none    2,11      none",
    ]


def test_some_partitions_of_a_topic() -> None:
    some = ORDERS._replace(partitions=ORDERS.partitions[:1], configs=None)
    assert next(topic_lines(some, 1)) == "orders: 1 partition, 2 replicas each"


def test_a_topic_as_json() -> None:
    assert topic_fields(ORDERS) == {
        "name": "orders",
        "id": "00000000-0000-0000-0000-000000000007",
        "internal": False,
        "configs": {"retention.ms": "5"},
        "partitions": [
            {
                "partition": 0,
                "leader": 11,
                "leader_epoch": 4,
                "replicas": [11, 2],
                "in_sync_replicas": [11, 2],
                "offline_replicas": [],
            },
            {
                "partition": 1,
                "leader": None,
                "leader_epoch": 5,
                "replicas": [2, 11],
                "in_sync_replicas": [],
                "offline_replicas": [11, 2],
            },
        ],
    }
    assert topic_fields(ORDERS._replace(configs=None))["configs"] is None


def test_replicas_of_partitions() -> None:
    assert replica_lists("1:2,2:3,3") == [[1, 2], [2, 3], [3]]


@pytest.mark.parametrize("text", ["", "1:", "a:b", "1;2", "1,,2"])
def test_replicas_that_are_no_lists(text: str) -> None:
    with pytest.raises(ConfigError, match="write the broker ids of each partition"):
        replica_lists(text)


def test_settings() -> None:
    assert topic_settings(["a.b=1", "c=", "d=x=y"]) == {"a.b": "1", "c": "", "d": "x=y"}
    for wrong in ("a", "=1"):
        with pytest.raises(ConfigError, match="write name=value"):
            topic_settings([wrong])


COMMAND = [sys.executable, "-m", "aioproducer", "topics", "delete", "orders", "-b", "localhost:1"]
NOT_DONE, WRONG_USE = 1, 2


@pytest.mark.parametrize("answer", [b"n\n", b"\n"])
def test_no_is_an_answer(answer: bytes) -> None:
    terminal, slave = os.openpty()
    try:
        os.write(terminal, answer)
        ended = subprocess.run(
            COMMAND, stdin=slave, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(terminal)
        os.close(slave)
    assert ended.returncode == NOT_DONE
    assert "Delete orders with all records?" in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("nothing was deleted")
    assert ended.stdout == ""


def test_nobody_can_be_asked_without_a_terminal() -> None:
    ended = subprocess.run(
        COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == WRONG_USE
    assert "give --yes to delete orders" in ended.stderr


FOUND = ClusterDescription(
    "abc",
    2,
    (
        BrokerDescription(1, "one", 9092, "east", {"PRODUCE": (3, 12), "FETCH": (4, 17)}),
        BrokerDescription(2, "two", 9092, None),
    ),
    {"metadata.version": 29, "kraft.version": 1},
)


def test_a_cluster_as_lines() -> None:
    assert list(lines(FOUND)) == [
        "cluster      abc",
        "broker       1 at one:9092, rack east",
        "broker       2 at two:9092",
        "feature      kraft.version 1",
        "feature      metadata.version 29",
        "controller   2",
        "versions     1 FETCH 4-17",
        "versions     1 PRODUCE 3-12",
    ]


def test_a_cluster_as_json() -> None:
    assert fields(FOUND) == {
        "cluster_id": "abc",
        "controller": 2,
        "brokers": [
            {
                "id": 1,
                "host": "one",
                "port": 9092,
                "rack": "east",
                "versions": {"FETCH": [4, 17], "PRODUCE": [3, 12]},
            },
            {"id": 2, "host": "two", "port": 9092, "rack": None},
        ],
        "features": {"kraft.version": 1, "metadata.version": 29},
    }
