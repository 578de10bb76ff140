"""The Admin: topics, their configuration and records, and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Final, Self, Unpack

from aioproducer.admin.calls import Calls
from aioproducer.admin.cluster import ClusterCalls, ConfigCalls
from aioproducer.admin.groups import GroupCalls
from aioproducer.admin.topics import RecordCalls, TopicCalls
from aioproducer.admin.values import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    LogPosition,
    NewTopic,
    PartitionLag,
    Setting,
    TopicDescription,
    by_name,
    check_count,
    checked_assignment,
    checked_changes,
    checked_groups,
    checked_names,
    checked_offsets,
    checked_partitions,
    checked_positions,
    checked_resources,
    checked_topics,
)
from aioproducer.config import ProducerConfig, ProducerOptions, hidden_mapping, hide_secrets
from aioproducer.engine.client.arguments import check_timeout
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.elsewhere import ASYNC_WITH, client_config, elsewhere
from aioproducer.engine.core.arguments import checked_offsets as checked_consumed_offsets
from aioproducer.errors import InvalidPartitionsError
from aioproducer.model import OffsetAndMetadata, TopicPartition

_NUMBERS: Final = count(1)


@elsewhere(__enter__=ASYNC_WITH)
class Admin:
    """Creates, changes and describes topics and groups, and describes brokers, on an event loop.

    ::

        async with Admin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topic("orders", partitions=6, replication_factor=3)
            print(await admin.describe_topics("orders"))

    Options are a producer's options, as keywords (see :class:`~aioproducer.ProducerConfig`) or as a
    ``config`` that the keywords override. Options that only producers use are ignored in a
    ``config`` and refused as keywords.

    Every call has a ``timeout`` in seconds for all its attempts; None means ``max_block_ms``. Until
    then it retries the same errors as a producer, and then raises a
    :class:`~aioproducer.ProducerTimeoutError` with the last of them. A topic that does not exist is
    an immediate error, unless this Admin has just created it.

    A call for several topics, partitions, resources or groups attempts all of them. If some fail,
    it raises the error of the first one in the order of the arguments; the notes of the error
    (``__notes__``) list the other errors and the successes.

    If the response to a change is lost, the change is retried. The retry can then find the result
    of the first attempt: a new topic already exists, or a deleted one is unknown. It is impossible
    to tell whether another client did that, so the error is raised. It says that an attempt got no
    response, and its ``may_have_been_written`` is True.

    Raises:
        ConfigError: an option is unknown, out of range, or contradicts another one.
    """

    def __init__(
        self, config: ProducerConfig | None = None, /, **options: Unpack[ProducerOptions]
    ) -> None:
        hide_secrets(options)
        config = hidden_mapping(config)
        self.config: ProducerConfig = client_config(config, options, "Admin")
        self.client_id: str = self.config.client_id or f"adminclient-{next(_NUMBERS)}"
        self._client = ClusterClient(self.config, self.client_id, "Admin")
        calls = Calls(self._client)
        self._topics = TopicCalls(calls)
        self._configs = ConfigCalls(calls)
        self._records = RecordCalls(calls)
        self._groups = GroupCalls(calls, self._records)
        self._cluster = ClusterCalls(calls)
        self._calls = calls

    def __repr__(self) -> str:
        return f"<Admin {getattr(self, 'client_id', 'that is being made')!r}>"

    # --- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start on the running event loop. Connections to the brokers open with the first call.

        Raises:
            IllegalStateError: the Admin has already been started.
            ConfigError: a file of the ``ssl_`` options can't be read or used.
            BootstrapError: no name in ``bootstrap_servers`` could be resolved within
                ``bootstrap_resolve_timeout_ms``.
        """
        await self._client.start(self.close)

    async def close(self) -> None:
        """Close all connections. Waiting calls fail with :class:`ClientClosedError`."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- topics ----------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, Setting] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Create a topic. The arguments are those of :class:`NewTopic`.

        On return the controller has the topic. Its leaders can be ready a moment later: see
        :meth:`wait_for_leaders`. ``validate_only``: check everything but create nothing.

        Raises:
            TopicAlreadyExistsError: a topic with this name already exists.
            InvalidReplicationFactorError: the cluster has fewer brokers.
            InvalidConfigError, PolicyViolationError, …: a check of :class:`NewTopic` or of the
                brokers failed.
            UnsupportedVersionError: the brokers' defaults are requested, before Kafka 2.4.
        """
        topic = NewTopic(name, partitions, replication_factor, assignment, configs or {})
        created = await self.create_topics([topic], validate_only=validate_only, timeout=timeout)
        return created[topic.name]

    async def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics, like :meth:`create_topic`. Returns the results by name."""
        named = by_name(topics)
        check_timeout(timeout)
        return await self._topics.create(named, validate_only, timeout)

    async def add_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Add partitions to a topic, so that it has ``total`` partitions.

        From then on, keys map to other partitions. ``assignment``: the brokers of each new
        partition, by number, as returned by ``assign_replicas(..., start_partition=...)``; None
        lets the controller choose.

        Raises:
            InvalidPartitionsError: the topic already has this many partitions, or more.
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        (name,) = checked_topics((topic,))
        where = f"topic {name!r}"
        check_count(total, f"{where}: total", 2**31, InvalidPartitionsError)
        check_timeout(timeout)
        brokers = None
        if assignment is not None:
            brokers = checked_assignment(assignment, where, total - len(assignment))
        await self._topics.add_partitions(name, total, brokers, validate_only, timeout)

    async def delete_topics(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete topics with all their records.

        Brokers remove the topic a moment later. Until then a producer can recreate it, if
        ``auto.create.topics.enable`` allows that.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        names = checked_topics(topics)
        check_timeout(timeout)
        await self._topics.delete(names, timeout)

    async def list_topics(
        self, *, internal: bool = False, timeout: float | None = None
    ) -> list[str]:
        """Return the names of the topics that the principal can see; ``internal`` includes Kafka's
        own."""
        check_timeout(timeout)
        return await self._topics.names(internal, timeout)

    async def describe_topics(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        configs: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicDescription]:
        """Return leaders, replicas and in-sync replicas of topics by name; None describes all
        topics, Kafka's own as well.

        ``configs``: include the topics' configuration.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        names = None if topics is None else checked_topics(topics)
        check_timeout(timeout)
        left = self._calls.countdown(timeout)
        found = await self._topics.describe(names, left())
        if not configs:
            return found
        entries = await self._configs.describe(tuple(found), None, left())
        return {name: each._replace(configs=entries[name]) for name, each in found.items()}

    async def wait_for_leaders(
        self, topics: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Wait until topics exist and each of their partitions has a leader.

        Raises:
            ProducerTimeoutError: a topic or a leader is missing after ``timeout``.
        """
        names = checked_topics(topics)
        check_timeout(timeout)
        return await self._topics.wait_for_leaders(names, timeout)

    # --- the cluster -----------------------------------------------------------------------

    async def describe_cluster(
        self, *, versions: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Return the brokers with their racks, the controller and the features of the cluster.

        ``versions``: include the request versions of every broker. This asks every broker; one that
        leaves the cluster meanwhile is left out.
        """
        check_timeout(timeout)
        return await self._cluster.describe(versions, timeout)

    # --- configuration ---------------------------------------------------------------------

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        names: str | Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configuration of topics (by name) and brokers (by id).

        ``names``: the values to return, such as ``retention.ms``; None returns all.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            BrokerNotAvailableError: the broker does not exist or is not available.
        """
        wanted = checked_resources(resources)
        chosen = checked_names(names)
        check_timeout(timeout)
        return await self._configs.describe(wanted, chosen, timeout)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change the configuration of topics (by name) and brokers (by id).

        ``changes``: by resource and name, a new value, None for the default, :class:`Append` or
        :class:`Subtract`. Other values do not change::

            await admin.alter_configs({"orders": {"retention.ms": 3_600_000, "segment.ms": None}})

        Raises:
            InvalidConfigError: a name or value is wrong.
            UnknownTopicOrPartitionError, BrokerNotAvailableError: the resource does not exist.
            UnsupportedVersionError: the broker is older than Kafka 2.3.
        """
        checked = checked_changes(changes)
        check_timeout(timeout)
        await self._configs.alter(checked, validate_only, timeout)

    # --- records ---------------------------------------------------------------------------

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition; -1 deletes all.

        Returns the new first offset of each partition.

        Raises:
            OffsetOutOfRangeError: a partition ends before the offset.
            PolicyViolationError: the topic's ``cleanup.policy`` allows only compaction.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
        """
        checked = checked_offsets(offsets)
        check_timeout(timeout)
        return await self._records.delete(checked, timeout)

    async def list_offsets(
        self, positions: Mapping[TopicPartition, LogPosition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of positions in the logs of partitions.

        A position is ``"beginning"``, ``"end"`` (the offset after the last record), or a
        ``datetime``. A ``datetime`` means the first record with this timestamp or a later one, or
        the end if there is none. Source: Kafka's ``Admin.listOffsets``.

        Raises:
            UnknownTopicOrPartitionError: a topic or partition does not exist.
        """
        checked = checked_positions(positions)
        check_timeout(timeout)
        return await self._records.offsets(checked, timeout)

    # --- groups ----------------------------------------------------------------------------

    async def list_groups(self, *, timeout: float | None = None) -> list[GroupListing]:
        """Return all groups of the cluster that the principal can see, by id."""
        check_timeout(timeout)
        return await self._groups.listed(timeout)

    async def describe_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return consumer groups with their members, by id.

        Raises:
            GroupIdNotFoundError: the group does not exist.
        """
        ids = checked_groups(groups)
        check_timeout(timeout)
        return await self._groups.describe(ids, timeout)

    async def group_lag(
        self,
        group: str,
        *,
        topics: str | Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, PartitionLag]:
        """Return the committed offset, the end and the lag of a group for each partition.

        Partitions without a committed offset are omitted. ``topics``: None for all.

        Raises:
            GroupIdNotFoundError: the group does not exist.
        """
        (name,) = checked_groups((group,))
        wanted = None if topics is None else checked_topics(topics)
        check_timeout(timeout)
        return await self._groups.lag(name, wanted, timeout)

    async def group_offsets(
        self,
        group: str,
        *,
        topics: str | Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, with their metadata and leader epochs.

        The call does not wait for offsets in open transactions; it returns the last committed ones.
        ``topics``: None for all. Source: Kafka's ``Admin.listConsumerGroupOffsets``.

        Raises:
            GroupIdNotFoundError: the group does not exist.
        """
        (name,) = checked_groups((group,))
        wanted = None if topics is None else checked_topics(topics)
        check_timeout(timeout)
        return await self._groups.offsets(name, wanted, timeout)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set the offsets from which a group continues. The group must have no members.

        Other offsets of the group do not change. If the group does not exist, it is created.
        Offsets are not checked against the log; :meth:`list_offsets` returns the log's beginning
        and end. Source: Kafka's ``Admin.alterConsumerGroupOffsets``.

        Raises:
            UnknownMemberIdError: the group has members; stop them first.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
            OffsetMetadataTooLargeError: metadata is longer than the brokers'
                ``offset.metadata.max.bytes``.
        """
        (name,) = checked_groups((group,))
        checked = checked_consumed_offsets(offsets)
        check_timeout(timeout)
        await self._groups.alter_offsets(name, checked, timeout)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None:
        """Delete offsets of a group, for topics that no member reads (KIP-496).

        A partition without an offset is not an error. Before Kafka 4, a group without members is
        deleted together with its last offset. Source: Kafka's ``Admin.deleteConsumerGroupOffsets``.

        Raises:
            GroupSubscribedToTopicError: members of the group read the topic; stop them first.
            NonEmptyGroupError: the group has members that are not consumers.
            GroupIdNotFoundError: the group does not exist.
            UnknownTopicOrPartitionError: a topic or partition does not exist.
            UnsupportedVersionError: the broker is older than Kafka 2.4.
        """
        (name,) = checked_groups((group,))
        checked = checked_partitions(partitions)
        check_timeout(timeout)
        await self._groups.delete_offsets(name, checked, timeout)

    async def delete_groups(
        self, groups: str | Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete groups without members, including their offsets (KIP-229).

        Raises:
            NonEmptyGroupError: the group has members; stop them first.
            GroupIdNotFoundError: the group does not exist.
        """
        ids = checked_groups(groups)
        check_timeout(timeout)
        await self._groups.delete(ids, timeout)
