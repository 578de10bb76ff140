"""Scripted members of a group, each with connections of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from aioproducer.engine.groups.requests import subscription_bytes
from tests.support.conversations import chat as c
from tests.support.conversations.chat import Asked, Chat, ErrorCode

SUBSCRIPTION: Final = subscription_bytes(["a topic"], (), -1, None)
"""What members of the classic protocol tell each other, and no coordinator reads."""
LONG_MS: Final = 30_000
_TRIES: Final = 400
_PAUSE: Final = 0.05


# --- the classic protocol ----------------------------------------------------------------------


class Group:
    """A group of the classic protocol."""

    def __init__(self, chat: Chat, name: str | None = None) -> None:
        self.chat = chat
        self.name = name or f"group-{uuid4().hex}"
        self.at = chat.coordinator(self.name, 0)
        asked = {"group_id": self.name, "topics": []}
        chat.ask(
            c.OFFSET_FETCH,
            8,
            to=self.at,
            patient=True,
            heard=False,
            groups=[asked],
            require_stable=True,
        )

    def member(self, **options: Any) -> Member:
        """A member that has not joined yet."""
        return Member(self, **options)

    def describe(self, version: int = 5, *, heard: bool = True) -> Any:
        """The state and the members."""
        return self.chat.ask(
            c.DESCRIBE_GROUPS,
            version,
            to=self.at,
            heard=heard,
            groups=(self.name,),
            include_authorized_operations=False,
        )

    def until(self, state: str, members: int | None = None) -> None:
        """Wait until the group is in a state, and has so many members."""
        for _ in range(_TRIES):
            [group] = self.describe(heard=False).groups
            if group.group_state == state and members in (None, len(group.members)):
                return
            self.chat.line.wait(_PAUSE)
        raise AssertionError(f"the group never was {state!r} with {members} members: {group}")

    def listed(self, version: int = 5, **filters: Sequence[str]) -> None:
        """Note the row of ListGroups, if there is one."""
        asked: dict[str, Any] = {"states_filter": (), "types_filter": (), **filters}
        body = self.chat.ask(c.LIST_GROUPS, version, to=self.at, heard=False, **asked)
        rows = [each for each in body.groups if each.group_id == self.name]
        self.chat.note([tuple(each)[1:] for each in rows])

    def committed(self) -> None:
        """The committed offset."""
        topic = {"name": self.chat.topic, "partition_indexes": (0,)}
        asked = {"group_id": self.name, "topics": [topic]}
        self.chat.ask(c.OFFSET_FETCH, 8, to=self.at, groups=[asked], require_stable=True)


class Member:
    """A member of a group of the classic protocol.

    A connection serves one request after another, so joins and syncs have one of their own.
    """

    def __init__(
        self,
        group: Group,
        *,
        instance_id: str | None = None,
        protocols: Iterable[str] = ("range",),
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
        subscription: bytes = SUBSCRIPTION,
    ) -> None:
        self.group = group
        self.chat = group.chat
        self.instance_id = instance_id
        self.protocols = tuple(protocols)
        self.subscription = subscription
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.party = uuid4().hex
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """Ask the coordinator."""
        asked = {"to": self.group.at, "group_id": self.group.name, **values}
        return self.chat.ask(api, version, party=f"{self.party} beside", **asked)

    # --- rebalances ------------------------------------------------------------------------

    def begin_join(self, version: int = 9, **changed: Any) -> Asked:
        """Send a JoinGroup."""
        values = {
            "group_id": self.group.name,
            "session_timeout_ms": self.session_ms,
            "rebalance_timeout_ms": self.rebalance_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": self.subscription} for name in self.protocols],
            **changed,
        }
        return self.chat.begin(c.JOIN_GROUP, version, to=self.group.at, party=self.party, **values)

    def joined(self, asked: Asked) -> ErrorCode:
        """The answer to a JoinGroup."""
        body = self.chat.finish(asked)
        code = ErrorCode(body.error_code)
        if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id, self.leader = body.member_id, body.leader
            self.generation = body.generation_id
        return code

    def join(self, version: int = 9, **changed: Any) -> ErrorCode:
        """Join, and join again with the id that the coordinator has given."""
        code = self.joined(self.begin_join(version, **changed))
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            code = self.joined(self.begin_join(version, **changed))
        return code

    def begin_sync(
        self, *assigned: tuple[Member, bytes], version: int = 5, **changed: Any
    ) -> Asked:
        """Send a SyncGroup."""
        values = {
            **self.identity(),
            "protocol_type": "consumer",
            "protocol_name": self.protocols[0],
            "assignments": [
                {"member_id": member.member_id, "assignment": data} for member, data in assigned
            ],
            **changed,
        }
        return self.chat.begin(c.SYNC_GROUP, version, to=self.group.at, party=self.party, **values)

    def sync(self, *assigned: tuple[Member, bytes], version: int = 5, **changed: Any) -> None:
        """Get the assignment; hand it in with ``assigned``."""
        self.chat.finish(self.begin_sync(*assigned, version=version, **changed))

    # --- between rebalances ----------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """The fields that say who it is."""
        return {
            "group_id": self.group.name,
            "member_id": self.member_id,
            "generation_id": self.generation,
            "group_instance_id": self.instance_id,
        }

    def heartbeat(self, version: int = 4, **changed: Any) -> ErrorCode:
        """Tell the coordinator that the member lives."""
        body = self.ask(c.HEARTBEAT, version, **{**self.identity(), **changed})
        return ErrorCode(body.error_code)

    def commit(self, offset: int = 1, version: int = 8, **changed: Any) -> None:
        """Commit an offset."""
        row = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "said",
        }
        values = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [
                {"name": self.chat.topic, "topic_id": self.chat.topic_id, "partitions": [row]}
            ],
            **changed,
        }
        self.ask(c.OFFSET_COMMIT, version, **values)

    def leave(self, version: int = 5, *, group_id: str | None = None, **changed: Any) -> None:
        """Leave the group."""
        me = {"member_id": self.member_id, "group_instance_id": self.instance_id, **changed}
        group = {} if group_id is None else {"group_id": group_id}
        self.ask(c.LEAVE_GROUP, version, **group, member_id=me["member_id"], members=[me])


# --- the protocol of KIP-848 -------------------------------------------------------------------


class EpochGroup:
    """A group of the protocol of KIP-848, and the topics that it reads.

    Partitions are divided at once, unless ``settings`` say otherwise.
    """

    def __init__(self, chat: Chat, *partitions: int, **settings: int) -> None:
        self.chat = chat
        self.name = f"group-{uuid4().hex}"
        self.at = chat.coordinator(self.name, 0)
        self.topics = [f"{chat.topic}-{place}" for place in range(len(partitions))]
        for name, count in zip(self.topics, partitions, strict=True):
            chat.line.create_topic(name, count, {})
        self.ids = {name: self._id(name) for name in self.topics}
        values = {"assignment.interval.ms": 0, "heartbeat.interval.ms": 3_000, **settings}
        self.configure({name.replace("_", "."): value for name, value in values.items()})

    def _id(self, topic: str) -> UUID:
        """The id of a topic, once the coordinator knows it."""
        for _ in range(_TRIES):
            body = self.chat.ask(
                c.METADATA,
                12,
                to=self.at,
                heard=False,
                topics=[{"topic_id": None, "name": topic}],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
            if not body.topics[0].error_code:
                found: UUID = body.topics[0].topic_id
                return found
            self.chat.line.wait(_PAUSE)
        raise AssertionError(f"there never was a topic {topic}")

    def configure(self, values: Mapping[str, int]) -> None:
        """Change settings of the group."""
        changes = [
            {"name": f"consumer.{name}", "config_operation": 0, "value": str(value)}
            for name, value in values.items()
        ]
        resource = {"resource_type": 32, "resource_name": self.name, "configs": changes}
        body = self.chat.ask(
            c.ALTER_CONFIGS, 1, heard=False, resources=[resource], validate_only=False
        )
        assert not body.responses[0].error_code, body
        self.chat.line.wait(0.3)

    def member(self, **options: Any) -> EpochMember:
        """A member that has not joined yet."""
        return EpochMember(self, **options)

    def describe(self, version: int = 1, *, heard: bool = True) -> Any:
        """The state and the members."""
        return self.chat.ask(
            c.GROUP_DESCRIBE,
            version,
            to=self.at,
            heard=heard,
            group_ids=(self.name,),
            include_authorized_operations=False,
        )

    def until(self, state: str, members: int | None = None) -> None:
        """Wait until the group is in a state, and has so many members."""
        for _ in range(_TRIES):
            [group] = self.describe(heard=False).groups
            if group.group_state == state and members in (None, len(group.members)):
                return
            self.chat.line.wait(_PAUSE)
        raise AssertionError(f"the group never was {state!r} with {members} members: {group}")


class EpochMember:
    """A member of a group of the protocol of KIP-848."""

    def __init__(
        self,
        group: EpochGroup,
        *,
        instance_id: str | None = None,
        topics: Sequence[str] = (),
        assignor: str | None = None,
        rebalance_ms: int = LONG_MS,
        member_id: str | None = None,
    ) -> None:
        self.group = group
        self.chat = group.chat
        self.instance_id = instance_id
        self.topics = topics or group.topics
        self.assignor = assignor
        self.rebalance_ms = rebalance_ms
        self.member_id = member_id or str(uuid4())
        self.epoch = 0
        self.assigned: list[Any] = []
        """The last assignment that the coordinator has told."""

    def ask(self, api: int, version: int, **values: Any) -> Any:
        """Ask the coordinator."""
        asked = {"to": self.group.at, "group_id": self.group.name, **values}
        return self.chat.ask(api, version, party=self.member_id, **asked)

    def beat(self, version: int = 1, *, heard: bool = True, **changed: Any) -> ErrorCode:
        """A heartbeat that says nothing new, but for what is ``changed``."""
        values = {
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            **changed,
        }
        body = self.ask(c.GROUP_HEARTBEAT, version, heard=heard, **values)
        if not body.error_code:
            self.member_id, self.epoch = body.member_id, body.member_epoch
            if body.assignment is not None:
                self.assigned = [each._asdict() for each in body.assignment.topic_partitions]
        return ErrorCode(body.error_code)

    def full(self, **changed: Any) -> dict[str, Any]:
        """What a heartbeat says that says everything."""
        return {
            "rebalance_timeout_ms": self.rebalance_ms,
            "subscribed_topic_names": self.topics,
            "server_assignor": self.assignor,
            "topic_partitions": self.assigned,
            **changed,
        }

    def join(self, version: int = 1, **changed: Any) -> ErrorCode:
        """Join, without partitions."""
        joins = {"member_epoch": 0, "topic_partitions": ()}
        return self.beat(version, **self.full(**joins), **changed)

    def own(self) -> ErrorCode:
        """Tell the coordinator that the member has what it was told, and nothing else."""
        return self.beat(topic_partitions=self.assigned)

    def leave(self, epoch: int = -1, **changed: Any) -> ErrorCode:
        """Leave the group; with epoch -2 for a while."""
        return self.beat(member_epoch=epoch, **changed)

    def commit(
        self, offset: int = 1, version: int = 9, *, partition: int = 0, **changed: Any
    ) -> None:
        """Commit an offset of the first topic."""
        topic = self.group.topics[0]
        row = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": "said",
        }
        values = {
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "topics": [{"name": topic, "topic_id": self.group.ids[topic], "partitions": [row]}],
            **changed,
        }
        self.ask(c.OFFSET_COMMIT, version, **values)

    def committed(self, version: int = 9, *, stable: bool = True, **changed: Any) -> None:
        """The committed offsets of the first topic."""
        asked = {
            "group_id": self.group.name,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "topics": [{"name": self.group.topics[0], "partition_indexes": (0, 1)}],
            **changed,
        }
        self.ask(c.OFFSET_FETCH, version, groups=[asked], require_stable=stable)
