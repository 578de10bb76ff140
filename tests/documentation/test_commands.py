"""The commands and the JSON of the documentation are those of the program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
import typer

from aioproducer.admin import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    GroupDescription,
    GroupListing,
    GroupMember,
    PartitionDescription,
    TopicDescription,
)
from aioproducer.cli import check, cluster, groups, perf, topics
from aioproducer.cli.app import app
from aioproducer.cli.groups import GroupProgress, OffsetChange, owners
from aioproducer.cli.performance_run import Measurement, Numbers, PerformanceJob, PerformanceResult
from aioproducer.cli.tail import as_json
from aioproducer.config import ProducerConfig
from aioproducer.engine.core.queries import ClusterCheck, TopicCheck
from aioproducer.model import ConsumerRecord, Node, TopicPartition
from aioproducer.observability.live.snapshots import Snapshot, figures
from aioproducer.observability.series import Sample
from tests.documentation.pages import DOCS, PAGES, blocks, name

PAGE: Final = DOCS / "how-to" / "command-line.md"
NAME: Final = "aioproducer"


def commands() -> Iterator[tuple[str, list[str]]]:
    """The page and the arguments of each command."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.text.replace("\\\n", "").splitlines():
                words = shlex.split(line, comments=True)
                if NAME in words:
                    arguments = words[words.index(NAME) + 1 :]
                    ends = [arguments.index(end) for end in ("|", "<", ">") if end in arguments]
                    yield name(page), arguments[: min(ends, default=len(arguments))]


ALL: Final = [each for each in commands() if each[1]]


@pytest.mark.parametrize(("page", "arguments"), ALL, ids=[" ".join(words) for _, words in ALL])
def test_the_commands_of_the_pages_are_understood(page: str, arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    if arguments[0].startswith("-"):
        assert arguments[0] in {name for each in command.params for name in each.opts}
        return
    context = typer.Context(command)
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, arguments)
        context = typer.Context(command, parent=context, info_name=name)
    command.make_context(name, list(arguments), parent=context.parent).close()


def test_every_command_has_an_example() -> None:
    shown = {words[0] for _, words in ALL}
    program: Any = typer.main.get_command(app)
    assert set(program.commands) <= shown


# --- JSON ----------------------------------------------------------------------------------

NODE: Final = Node(1, "one", 9092, "east")
TOPIC: Final = TopicDescription(
    "orders",
    None,
    False,
    (PartitionDescription(0, 1, 0, (1,), (1,)),),
    {"retention.ms": ConfigEntry("retention.ms", "3600000", "DYNAMIC_TOPIC_CONFIG")},
)
GROUP: Final = GroupDescription(
    "billing",
    "classic",
    "Stable",
    "consumer",
    "range",
    (GroupMember("app-1", None, "app", "/10.0.0.7", (TopicPartition("orders", 0),)),),
    NODE,
)
SERIES: Final = [
    Sample("kafka_producer_topic_record_send_total", {"client_id": "shop", "topic": "orders"}, 1),
    Sample("aioproducer_broker_connected", {"client_id": "shop", "node": "1"}, 1),
]


def printed() -> Iterator[Any]:
    """Results as the commands print them, of those that a function makes."""
    record = ConsumerRecord(
        "orders", 0, 3, 1, "CreateTime", b"k", b"\xff", (("trace", b"4bf92f35"),)
    )
    yield json.loads(as_json(record))
    measured = Measurement(0.0)
    job = PerformanceJob(
        "orders", ProducerConfig(bootstrap_servers="localhost:9092"), Numbers(), records=1
    )
    yield perf.fields(
        job, PerformanceResult(measured.total(1.0), None, 0, None, None, None, interrupted=False)
    )
    yield {"topics": [topics.topic_fields(TOPIC)]}
    broker = BrokerDescription(1, "one", 9092, "east", {"PRODUCE": (3, 12)})
    yield cluster.fields(ClusterDescription("id", 1, (broker,), {"metadata.version": 29}))
    [zero] = owners(GROUP)
    yield {"groups": [groups.listing_fields(GroupListing("billing", "consumer", "", ""))]}
    yield {"groups": [groups.group_fields(GroupProgress(GROUP, {zero: (4, 30)}))]}
    yield groups.change_fields("billing", [OffsetChange(zero, 4, 12)], executed=False)
    checked = {"orders": TopicCheck(6, True)}
    features = {"metadata.version": 29}
    yield check.fields(ClusterCheck("id", (NODE,), features, {}, checked, None))
    [seen] = figures(None, Snapshot(0.0, SERIES))
    yield seen.as_dict()


DOCUMENTED: Final = [
    json.loads(line) for block in blocks(PAGE, "json") for line in block.text.splitlines()
]


@pytest.mark.parametrize("result", list(printed()), ids=lambda result: ",".join(result)[:40])
def test_json_is_documented_as_it_is_printed(result: Any) -> None:
    assert names_of(result) in [names_of(each) for each in DOCUMENTED]


def names_of(value: Any) -> Any:
    """The names of all fields, in their order."""
    if isinstance(value, dict):
        return [(key, names_of(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [names_of(each) for each in value[:1]]
    return None
