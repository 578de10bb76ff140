"""A partition that a group has given to a member, from then to its loss. No I/O."""

from __future__ import annotations

from collections import deque
from enum import IntFlag, auto
from math import inf
from typing import Final
from uuid import UUID

from aioproducer.model import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aioproducer.reader.partition import PartitionState
from aioproducer.reader.positions import Position


class Hold(IntFlag):
    """Why nothing of a partition is handed out."""

    REVOKED = auto()
    """The group takes it."""
    PAUSED = auto()
    """The application has paused it."""
    SILENT = auto()
    """The coordinator may have given it away."""
    FULL = auto()
    """Many of its records wait for handlers."""
    CLOSED = auto()
    """The consumer ends."""
    UNWANTED = auto()
    """The application has subscribed to other topics."""


NO_HANDLER: Final = Hold.PAUSED | Hold.UNWANTED
"""The reasons for which no handler begins with a record that waits for one already."""


class Work:
    """The records of a partition that an application has, from one place in the log on."""

    __slots__ = ("begun", "offsets", "running", "waiting", "where")

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.offsets: dict[int, float] = {}
        """The unacknowledged offsets that were taken side by side, in their order, and when the
        application began with them; infinite: they wait for others."""
        self.waiting = deque[ConsumerRecord]()
        """The records after them that wait for handlers. The position is after these."""
        self.running = 0
        """The number of them that the application works on now."""
        self.begun = -1
        """The highest offset that the application has begun to work on."""

    def take(self, offset: int) -> None:
        """The record at ``offset`` waits for others to be done."""
        self.offsets[offset] = inf

    def begin(self, offset: int, now: float) -> None:
        """The application works on the record at ``offset`` from now on."""
        self.offsets[offset] = now
        self.running += 1
        self.begun = max(self.begun, offset)

    def finish(self, offset: int) -> None:
        """The application is done with the record at ``offset``."""
        self.running -= 1
        self.offsets.pop(offset, None)

    def leave(self, offset: int) -> None:
        """The application has given the record at ``offset`` up."""
        self.running -= 1
        if offset in self.offsets:
            self.offsets[offset] = inf


class AssignedPartition:
    """A partition of a member. A group may take it and give it back: then it is another one."""

    __slots__ = (
        "committed",
        "fallback",
        "former",
        "holds",
        "is_anew",
        "is_told",
        "sought",
        "start",
        "state",
        "topic_id",
        "where",
        "work",
    )

    def __init__(self, where: TopicPartition, topic_id: UUID | None = None) -> None:
        self.where = where
        self.topic_id = topic_id
        """The id by which the group has given it; None: it has names only."""
        self.sought: int | None = None
        """The offset that the application has sought before reading began."""
        self.fallback: int | None = None
        """Where to begin if the group has no offset, in place of ``auto_offset_reset``."""
        self.is_anew = False
        """True: its topic was created again, so the group's offset is not its own."""
        self.former: int | None = None
        """The group's offset of a topic that had the same name before, which is not its own."""
        self.is_told = False
        """True: its revocation is reported to the application; it is released soon, and not
        reported as lost."""
        self.holds: int = 0
        """The reasons for which nothing of it is handed out, as of :class:`Hold`."""
        self.state: PartitionState
        """What is read of it, once reading has begun."""
        self.start = 0
        """The offset at which reading began."""
        self.committed: int | None = None
        """The group's offset, as far as it is known; None: there is none."""
        self.work: Work = Work(where)

    def again(self) -> AssignedPartition:
        """The same partition, to be begun once more."""
        new = AssignedPartition(self.where, self.topic_id)
        new.sought, new.fallback, new.is_anew = self.sought, self.fallback, self.is_anew
        if self.committed is None:
            new.former = self.former
        new.holds, new.is_told = self.holds, self.is_told
        return new

    @property
    def is_recreated(self) -> bool:
        """True if a topic of the same name was deleted before, as far as the member knows."""
        return self.is_anew or self.former is not None

    def own(self, committed: OffsetAndMetadata | None) -> OffsetAndMetadata | None:
        """The group's offset; None: there is none, or it is that of another topic."""
        if committed is None or self.is_anew or committed.offset == self.former:
            return None
        return committed

    def place(
        self, own: OffsetAndMetadata | None, reset: Position | None, *, is_new: bool = False
    ) -> OffsetAndMetadata | Position | None:
        """Where reading begins: at the offset of ``seek()``, else at the group's, which is ``own``,
        else where this member began before, else at the position ``reset``.

        None: it is refused until the application seeks, because there is no reset.

        A topic that was created again, and a partition that did not exist when the member
        subscribed (``is_new``), begin at their beginning with any reset: nobody has decided to skip
        the records that were written before the group noticed them.
        """
        if self.sought is not None:
            return OffsetAndMetadata(self.sought)
        if own is not None:
            return own
        if self.fallback is not None:
            return OffsetAndMetadata(self.fallback)
        return "beginning" if reset is not None and (is_new or self.is_recreated) else reset

    def begin(
        self,
        place: OffsetAndMetadata,
        committed: OffsetAndMetadata | None,
        *,
        from_beginning: bool = False,
    ) -> None:
        """Read from ``place`` on, unless another offset was sought meanwhile.

        ``from_beginning``: ``place`` is where the log began when it was looked up.
        """
        self.start = place.offset if self.sought is None else self.sought
        self.state = PartitionState(self.where, self.start, None)
        self.state.from_beginning = from_beginning and self.sought is None
        if place.leader_epoch is not None:
            self.state.read_epoch = self.state.position_epoch = place.leader_epoch
        self.committed = None if committed is None else committed.offset
        self.sought, self.is_anew = None, False

    @property
    def done(self) -> int:
        """The group's offset, or the first one that was read if it has none."""
        return self.start if self.committed is None else self.committed
