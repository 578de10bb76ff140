"""The assignment of replicas to brokers, by Kafka's own rule. No I/O.

Source: Kafka's ``AdminUtils.assignReplicasToBrokers`` and ``RackAwareMode``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, zip_longest
from random import Random
from typing import Final

from aioproducer.admin.values import check_broker, check_count
from aioproducer.errors import (
    ConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
)
from aioproducer.model import Node

__all__ = ["RackAwareMode", "assign_replicas", "rack_alternated"]


class RackAwareMode(StrEnum):
    """The use of racks in an assignment. Source: Kafka's ``RackAwareMode``."""

    DISABLED = "disabled"
    """Racks are ignored."""
    ENFORCED = "enforced"
    """Every broker has a rack, or none has one; anything else is an error."""
    SAFE = "safe"
    """Racks are used if every broker has one, else ignored."""


_RANDOM: Final = Random()


def assign_replicas(
    brokers: Iterable[int | Node],
    partitions: int,
    replication_factor: int,
    fixed_start: int | None = None,
    start_partition: int | None = None,
    racks: Mapping[int, str | None] | None = None,
    *,
    rack_mode: RackAwareMode | str = RackAwareMode.ENFORCED,
    random: Random = _RANDOM,
) -> dict[int, tuple[int, ...]]:
    """Assign the replicas of a topic's partitions to brokers, as Kafka's own tools do.

    The first replicas are assigned round robin, starting at a random broker. The other replicas of
    a partition are on the brokers that follow, at a distance that grows with every round. With
    racks, the list of brokers alternates between the racks (:func:`rack_alternated`), and a
    partition has a replica on every rack before any rack gets a second one. So:

    - the numbers of leaders per broker differ by at most one;
    - in whole rounds (a multiple of the number of brokers, starting at such a multiple) every
      broker has the same number of replicas, if all racks have the same number of brokers.

    Args:
        brokers: the brokers' ids in the order of the assignment, or :class:`Node` objects, whose
            racks are used if ``racks`` is None.
        partitions: the number of partitions to assign.
        replication_factor: the number of replicas of each partition.
        fixed_start: the position of partition 0's first replica in the list of brokers, and the
            first shift; None makes both random.
        start_partition: the number of the first partition, if you add partitions to a topic; None
            is 0.
        racks: the brokers' racks by id.
        rack_mode: how to use the racks.
        random: the source of the random start.

    Returns:
        The brokers' ids by partition. The first is the preferred leader.

    Raises:
        InvalidPartitionsError: ``partitions``, ``start_partition`` or ``fixed_start`` is too low.
        InvalidReplicationFactorError: the factor is below 1, or above the number of brokers.
        InvalidReplicaAssignmentError: a broker is listed twice, or only some brokers have racks.
    """
    ids, known_racks = _brokers(brokers, racks)
    _check(ids, partitions, replication_factor, fixed_start, start_partition)
    used_racks = _used_racks(ids, known_racks, _mode(rack_mode))
    if used_racks:
        ids = rack_alternated(used_racks)
    count = len(ids)
    start = random.randrange(count) if fixed_start is None else fixed_start
    shift = random.randrange(count) if fixed_start is None else fixed_start
    assigned: dict[int, tuple[int, ...]] = {}
    first = start_partition or 0
    for partition in range(first, first + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        place = (partition + start) % count
        if used_racks:
            assigned[partition] = _on_racks(ids, used_racks, place, shift, replication_factor)
        else:
            behind = (_behind(place, shift + n, count) for n in range(replication_factor - 1))
            assigned[partition] = (ids[place], *(ids[each] for each in behind))
    return assigned


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """The brokers in turn from each rack: 0, 3, 6, 1, 4, 7, … if the first rack has 0, 1 and 2.

    Racks are in the order of their names, a rack's brokers in that of their ids.
    """
    by_rack: defaultdict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    columns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(columns) if broker is not None]


def _on_racks(
    ids: Sequence[int], racks: Mapping[int, str], place: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    """The replicas of a partition: each rack has one before any has two."""
    every_rack = len(set(racks.values()))
    replicas = [ids[place]]
    covered = {racks[ids[place]]}
    step = shift * every_rack
    while len(replicas) < replication_factor:
        broker = ids[_behind(place, step, len(ids))]
        step += 1
        on_new_rack = racks[broker] not in covered or len(covered) == every_rack
        if on_new_rack and broker not in replicas:
            replicas.append(broker)
            covered.add(racks[broker])
    return tuple(replicas)


def _behind(place: int, shift: int, count: int) -> int:
    """A place other than ``place``; the next shift gives the next one."""
    return (place + 1 + shift % (count - 1)) % count


def _mode(mode: RackAwareMode | str) -> RackAwareMode:
    try:
        return RackAwareMode(mode)
    except ValueError:
        modes = ", ".join(repr(str(each)) for each in RackAwareMode)
        raise ConfigError(f"rack_mode is one of {modes}, not {mode!r}") from None


def _brokers(
    brokers: Iterable[int | Node], racks: Mapping[int, str | None] | None
) -> tuple[list[int], Mapping[int, str | None]]:
    listed = list(brokers)
    ids = [each.id if isinstance(each, Node) else each for each in listed]
    for each in ids:
        check_broker(each, "brokers")
    if racks is None:
        racks = {each.id: each.rack for each in listed if isinstance(each, Node)}
    return ids, racks


def _check(
    ids: Sequence[int],
    partitions: int,
    replication_factor: int,
    fixed_start: int | None,
    start_partition: int | None,
) -> None:
    check_count(partitions, "partitions", 2**31, InvalidPartitionsError)
    check_count(replication_factor, "replication_factor", 2**15, InvalidReplicationFactorError)
    for name, value in (("fixed_start", fixed_start), ("start_partition", start_partition)):
        if value is not None and (type(value) is not int or not 0 <= value < 2**31):
            raise InvalidPartitionsError(f"{name} is an int from 0, or None, not {value!r}")
    twice = [each for each, times in Counter(ids).items() if times > 1]
    if twice:
        raise InvalidReplicaAssignmentError(f"each broker is named once, but {twice} are repeated")
    if replication_factor > len(ids):
        raise InvalidReplicationFactorError(
            f"{replication_factor} replicas need {replication_factor} brokers, and there "
            f"{'is' if len(ids) == 1 else 'are'} {len(ids)}: lower replication_factor, or add "
            "brokers"
        )


def _used_racks(
    ids: Sequence[int], racks: Mapping[int, str | None], mode: RackAwareMode
) -> dict[int, str]:
    """The rack of every broker; empty: racks are not used."""
    known = {each: rack for each in ids if (rack := racks.get(each)) is not None}
    if mode is RackAwareMode.DISABLED or not known:
        return {}
    without = [each for each in ids if each not in known]
    if not without:
        return known
    if mode is RackAwareMode.SAFE:
        return {}
    raise InvalidReplicaAssignmentError(
        f"the brokers {without} have no rack, and the others have one: set broker.rack for all "
        'brokers, or ignore racks with rack_mode="disabled"'
    )
