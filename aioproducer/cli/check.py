"""``aioproducer check``: tells if a producer with this configuration could write, and where to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aioproducer import loops
from aioproducer.cli import exit_codes
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Json,
    Properties,
    Timeout,
    Verbose,
)
from aioproducer.cli.results import broker_fields, cluster_lines, print_result, require_output
from aioproducer.cli.settings import CLIENT_ID, client_config, topics_of
from aioproducer.cli.terminal import CONNECTIONS, Terminal
from aioproducer.config import ProducerConfig
from aioproducer.producer import Producer

if TYPE_CHECKING:
    from aioproducer.engine.core.queries import ClusterCheck, TopicCheck

__all__ = ["check", "fields", "lines"]

HELP = f"""\
Connect, log in, and check whether a producer could write. Nothing is written.

Prints the cluster and its brokers, and for each topic the number of partitions and whether this \
principal is allowed to write to it. The errors are those of a producer.
{exit_codes("a producer could write", "it could not; standard error shows the reason")}

\b
Example:
  aioproducer check orders -b localhost:9092
"""


def check(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics to be written to.")
    ] = None,
    bootstrap_servers: BootstrapServers = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Check its coordinator and WRITE for it, without fencing a producer.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="ID", help="A group whose offsets transactions commit (needs READ)."),
    ] = None,
    consumed_topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="A topic of these offsets (needs READ). Repeatable."),
    ] = None,
    timeout: Timeout = 10.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    require_output()
    terminal = Terminal(verbose=verbose)
    terminal.show_log(told_otherwise=CONNECTIONS)
    config = client_config(CLIENT_ID, bootstrap_servers, properties, command_config)
    named = topics_of(topics or ())
    found = loops.run(
        _check(
            config,
            timeout,
            topics=named,
            transactional_id=transactional_id or config.transactional_id,
            group_id=group,
            consumed_topics=topics_of(consumed_topic or ()),
        )
    )
    print_result(fields(found), lines(found), as_json=as_json)
    return 0


check.__doc__ = HELP


async def _check(config: ProducerConfig, timeout: float, **named: Any) -> ClusterCheck:
    """Check without a transactional id, by which this would fence the producer that has it."""
    async with Producer(config.replace(transactional_id=None)) as producer:
        return await producer.check(timeout, **named)


def lines(found: ClusterCheck) -> Iterator[str]:
    """The findings, a name and a value in each line."""
    yield from cluster_lines(found.cluster_id, found.brokers, found.features)
    for name, topic in found.topics.items():
        yield f"topic        {name}: {_told(topic)}"
    if found.coordinator is not None:
        broker = found.coordinator
        yield f"coordinator  {broker.id} at {broker.host}:{broker.port}"
    yield f"compiled     {'yes' if found.compiled else 'no'}"


def _told(topic: TopicCheck) -> str:
    partitions = f"{topic.partitions} partition{'' if topic.partitions == 1 else 's'}"
    if topic.may_write is None:
        return f"{partitions}; this broker (before Kafka 2.3) does not report whether you may write"
    return f"{partitions}, you may write"


def fields(found: ClusterCheck) -> dict[str, Any]:
    """The findings, as JSON has them."""
    return {
        "cluster_id": found.cluster_id,
        "brokers": [
            broker_fields(each) for each in sorted(found.brokers, key=lambda each: each.id)
        ],
        "features": dict(sorted(found.features.items())),
        "topics": {
            name: {"partitions": topic.partitions, "may_write": topic.may_write}
            for name, topic in found.topics.items()
        },
        "coordinator": None if found.coordinator is None else broker_fields(found.coordinator),
        "compiled": found.compiled,
    }
