"""``aioproducer topics``: list, describe, create and delete topics, and add partitions.

Replicas of partitions and settings of topics are written as ``kafka-topics`` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Annotated, Any, TypeAlias

import typer

from aioproducer.admin import Admin, CreatedTopic, NewTopic, PartitionDescription, TopicDescription
from aioproducer.cli import EXIT_FAILED, exit_codes
from aioproducer.cli.admin_call import Yes, call_admin, delete_each, is_confirmed
from aioproducer.cli.app import SubcommandGroup, new_program
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Json,
    Properties,
    Timeout,
    Verbose,
)
from aioproducer.cli.results import print_result, table
from aioproducer.cli.settings import topics_of
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import (
    ConfigError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.foundation.logs import counted

__all__ = [
    "replica_lists",
    "topic_settings",
    "topic_fields",
    "topic_lines",
    "topics",
]


def replica_lists(text: str) -> list[list[int]]:
    """``1:2,2:3``: the broker ids of each partition, partitions parted by commas.

    Raises:
        ConfigError: an id is no number.
    """
    try:
        return [[int(broker) for broker in replicas.split(":")] for replicas in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"--replica-assignment {text!r}: write the broker ids of each partition, such as "
            "1:2,2:3 for two partitions with two replicas each"
        ) from None


def topic_settings(settings: Iterable[str]) -> dict[str, str]:
    """``name=value`` each.

    Raises:
        ConfigError: there is no ``=``.
    """
    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--config {text!r}: write name=value, such as retention.ms=3600000")
        found[name.strip()] = value.strip()
    return found


_HEADINGS = ("partition", "leader", "replicas", "in sync")


def topic_fields(topic: TopicDescription) -> dict[str, Any]:
    """A topic, as JSON has it."""
    return {
        "name": topic.name,
        "id": None if topic.topic_id is None else str(topic.topic_id),
        "internal": topic.internal,
        "configs": _settings(topic),
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "in_sync_replicas": list(each.in_sync_replicas),
                "offline_replicas": list(each.offline_replicas),
            }
            for each in topic.partitions
        ],
    }


def topic_lines(topic: TopicDescription, count: int) -> Iterator[str]:
    """A topic, as a person reads it; it has ``count`` partitions, even if fewer are shown."""
    replicas = max((len(each.replicas) for each in topic.partitions), default=0)
    yield f"{topic.name}: {_plural(count, 'partition')}, {_plural(replicas, 'replica')} each"
    for name, value in (_settings(topic) or {}).items():
        yield f"  {name}={value}"
    yield from table([_HEADINGS, *map(_row, topic.partitions)])


def _settings(topic: TopicDescription) -> dict[str, str | None] | None:
    """The settings that differ from the defaults; None if nobody told them."""
    if topic.configs is None:
        return None
    entries = sorted(topic.configs.items())
    return {name: entry.value for name, entry in entries if not entry.is_default}


def _row(partition: PartitionDescription) -> tuple[str, ...]:
    return (
        str(partition.partition),
        "none" if partition.leader is None else str(partition.leader),
        _ids(partition.replicas),
        _ids(partition.in_sync_replicas) or "none",
    )


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


topics = new_program(
    cls=SubcommandGroup, help="List, describe, create and delete topics, and add partitions."
)

TopicName: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
ReplicaAssignment: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LISTS",
        help="The brokers of each partition, the preferred leader first: 1:2,2:3 is two "
        "partitions with two replicas each.",
    ),
]
ValidateOnly: TypeAlias = Annotated[
    bool, typer.Option("--validate-only", help="Let the brokers check it; change nothing.")
]


@topics.command("list", help=f"Print the names of all topics.\n{exit_codes()}")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Include Kafka's own topics.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    async def names(admin: Admin) -> list[str]:
        return sorted(await admin.list_topics(internal=internal, timeout=timeout))

    found = call_admin(names, bootstrap_servers, properties, command_config, verbose)
    print_result({"topics": found}, found, as_json=as_json)
    return 0


@topics.command(
    "describe",
    help="Describe topics: their partitions, and the settings that are not defaults.\n"
    + exit_codes(),
    short_help="Describe topics: partitions, replicas and settings.",
)
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; default: all, Kafka's too.")
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with out-of-sync replicas.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    wanted = topics_of(names or ()) or None

    async def described(admin: Admin) -> dict[str, TopicDescription]:
        try:
            return await admin.describe_topics(wanted, configs=True, timeout=timeout)
        except (TopicAuthorizationFailedError, UnsupportedVersionError) as error:
            found = await admin.describe_topics(wanted, timeout=timeout)
            Terminal().say(f"the settings of topics are not shown: {error}")
            return found

    found = call_admin(described, bootstrap_servers, properties, command_config, verbose)
    shown = []
    lines: list[str] = []
    for topic in found.values():
        kept = topic._replace(
            partitions=tuple(filter(_chosen(under_replicated, unavailable), topic.partitions))
        )
        if kept.partitions or not (under_replicated or unavailable):
            shown.append(topic_fields(kept))
            lines += topic_lines(kept, len(topic.partitions))
    print_result({"topics": shown}, lines, as_json=as_json)
    return 0


@topics.command(
    "create",
    help="Create a topic. Omit a number to use the brokers' default.\n" + exit_codes(),
)
def create(
    topic: TopicName,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The number of partitions.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The number of replicas per partition.")
    ] = None,
    replica_assignment: ReplicaAssignment = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of the topic. Repeatable."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic already exists.")
    ] = False,
    validate_only: ValidateOnly = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    (name,) = topics_of([topic])
    assignment = None if replica_assignment is None else replica_lists(replica_assignment)
    settings = topic_settings(config or ())
    asked = _new_topic(name, partitions, replication_factor, assignment, settings)
    made: bool | None = not validate_only

    async def created(admin: Admin) -> CreatedTopic | None:
        nonlocal made
        try:
            found = await admin.create_topics([asked], validate_only=validate_only, timeout=timeout)
            return found[name]
        except TopicAlreadyExistsError as error:
            if not if_not_exists:
                raise
            made = False
            if error.may_have_been_written:  # it may be the topic of somebody else
                made = None
                Terminal().say(str(error))
            return None

    found = call_admin(created, bootstrap_servers, properties, command_config, verbose)
    result = {
        "topic": name,
        "created": made,
        "id": str(found.topic_id) if made and found and found.topic_id else None,
        "partitions": None if found is None else found.partitions,
        "replication_factor": None if found is None else found.replication_factor,
    }
    print_result(result, [_creation(name, found, validate_only)], as_json=as_json)
    return 0


@topics.command("delete", help=f"Delete topics with all their records.\n{exit_codes()}")
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topics.")],
    yes: Yes = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if a topic does not exist.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    wanted = topics_of(dict.fromkeys(names))
    if not yes and not is_confirmed(wanted, "all records"):
        Terminal().say("nothing was deleted")
        return EXIT_FAILED

    async def deleted(admin: Admin) -> list[str]:
        def delete_one(name: str, left: float) -> Coroutine[Any, Any, None]:
            return admin.delete_topics(name, timeout=left)

        missing = UnknownTopicOrPartitionError if if_exists else None
        return await delete_each(wanted, delete_one, timeout, missing)

    found = call_admin(deleted, bootstrap_servers, properties, command_config, verbose)
    print_result({"deleted": found}, [f"deleted {name}" for name in found], as_json=as_json)
    return 0


@topics.command(
    "add-partitions",
    help="Add partitions to a topic. From then on, keys map to other partitions.\n" + exit_codes(),
)
def add_partitions(
    topic: TopicName,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, help="The new total number of partitions.")
    ],
    replica_assignment: ReplicaAssignment = None,
    validate_only: ValidateOnly = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    (name,) = topics_of([topic])
    lists = [] if replica_assignment is None else replica_lists(replica_assignment)
    assignment = dict(enumerate(lists, partitions - len(lists))) or None

    async def add(admin: Admin) -> None:
        await admin.add_partitions(
            name,
            partitions,
            assignment=assignment,
            validate_only=validate_only,
            timeout=timeout,
        )

    call_admin(add, bootstrap_servers, properties, command_config, verbose)
    done = "would have" if validate_only else "has"
    print_result(
        {"topic": name, "partitions": partitions, "added": not validate_only},
        [f"{name} {done} {counted(partitions, 'partition')}"],
        as_json=as_json,
    )
    return 0


def _chosen(under_replicated: bool, unavailable: bool) -> Callable[[PartitionDescription], bool]:
    """A partition is shown if it is what any of the options asks for; without them, always."""

    def chosen(partition: PartitionDescription) -> bool:
        behind = len(partition.in_sync_replicas) < len(partition.replicas)
        return (
            not (under_replicated or unavailable)
            or (under_replicated and behind)
            or (unavailable and partition.leader is None)
        )

    return chosen


def _new_topic(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    assignment: list[list[int]] | None,
    settings: dict[str, str],
) -> NewTopic:
    """The topic to create. Raises ConfigError if it contradicts itself."""
    replicas = None if assignment is None else dict(enumerate(assignment))
    try:
        return NewTopic(name, partitions, replication_factor, replicas, settings)
    except KafkaError as error:
        raise ConfigError(str(error)) from None


def _creation(name: str, found: CreatedTopic | None, validate_only: bool) -> str:
    if found is None:
        return f"{name} exists already"
    done = "would be created" if validate_only else "created"
    if found.partitions is None:
        return f"{name} {done}"
    replicas = (
        ""
        if found.replication_factor is None
        else (f", {counted(found.replication_factor, 'replica')} each")
    )
    return f"{name} {done}: {counted(found.partitions, 'partition')}{replicas}"
