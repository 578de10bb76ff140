"""The assignment of replicas: Kafka's own examples, and the properties that Kafka promises.

The examples are those of Kafka's ``AdminRackAwareTest`` and of the comments of its ``AdminUtils``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.admin import RackAwareMode, assign_replicas, rack_alternated
from aioproducer.errors import (
    ConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
)
from aioproducer.model import Node

EVEN = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
UNEVEN = {0: "rack1", 1: "rack1", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"}
MIXED = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
LARGE = {
    **{0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack1"},
    **{6: "rack1", 7: "rack2", 8: "rack2", 9: "rack3", 10: "rack1", 11: "rack3"},
}
TWO_ON_ONE = {0: "rack1", 1: "rack2", 2: "rack2", 3: "rack3", 4: "rack3", 5: "rack2"}

Assignment = Mapping[int, Sequence[int]]


class Scripted(Random):
    """Random numbers that are written down."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.numbers = list(numbers)

    def randrange(self, *_: Any) -> int:
        return self.numbers.pop(0)


def leaders(assigned: Assignment) -> Counter[int]:
    return Counter(replicas[0] for replicas in assigned.values())


def all_replicas(assigned: Assignment) -> Counter[int]:
    return Counter(each for replicas in assigned.values() for each in replicas)


# --- examples ------------------------------------------------------------------------------------


def test_the_example_without_racks() -> None:
    """The table in the comment of ``AdminUtils``, and ``testReplicaAssignment``."""
    assert assign_replicas(range(5), 10, 3, fixed_start=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_the_example_with_racks() -> None:
    assert rack_alternated(MIXED) == [0, 3, 1, 5, 4, 2]
    assert rack_alternated({each: MIXED[each] for each in range(5)}) == [0, 3, 1, 4, 2]
    assert assign_replicas(MIXED, 7, 3, 0, 0, racks=MIXED) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


def test_nine_brokers_on_three_racks_alternate() -> None:
    racks = {broker: f"rack{broker // 3 + 1}" for broker in range(9)}
    assert rack_alternated(racks) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert rack_alternated({5: "b", 9: "a", 1: "b", 7: "a"}) == [7, 1, 9, 5]


@pytest.mark.parametrize(("brokers", "first"), [([0, 1, 2], (2, 0, 1)), ([2, 5, 8], (8, 2, 5))])
def test_a_random_start_and_shift(brokers: list[int], first: tuple[int, ...]) -> None:
    """The worked example of the source documents: start 2, shift 2, six partitions, three replicas.

    Ids that are not consecutive stand in the same places.
    """
    assigned = assign_replicas(brokers, 6, 3, random=Scripted(2, 2))
    assert assigned[0] == first
    places = {number: tuple(map(brokers.index, each)) for number, each in assigned.items()}
    assert places == {
        0: (2, 0, 1),
        1: (0, 1, 2),
        2: (1, 2, 0),
        3: (2, 1, 0),
        4: (0, 2, 1),
        5: (1, 0, 2),
    }


def test_added_partitions_go_on_where_the_topic_ends() -> None:
    whole = assign_replicas(range(5), 12, 3, fixed_start=1)
    added = assign_replicas(range(5), 5, 3, fixed_start=1, start_partition=1)
    assert list(added) == [1, 2, 3, 4, 5]
    assert added == {number: whole[number] for number in added}


@pytest.mark.parametrize(
    ("racks", "partitions", "factor", "options", "evenly_led", "evenly_spread"),
    [
        (EVEN, 6, 3, {"fixed_start": 2, "start_partition": 0}, True, True),
        (EVEN, 6, 3, {}, True, True),
        (EVEN, 13, 3, {"fixed_start": 0, "start_partition": 0}, False, False),
        (UNEVEN, 12, 3, {}, True, False),
        (EVEN, 12, 2, {}, True, True),
        (
            {each + 6: rack for each, rack in EVEN.items()},
            12,
            2,
            {"start_partition": 12},
            *[True] * 2,
        ),
        (EVEN, 6, 2, {}, True, True),
        ({0: "rack1", 1: "rack2", 4: "rack3"}, 3, 2, {}, True, True),
        (LARGE, 96, 3, {}, True, True),
    ],
    ids=[
        "testAssignmentWithRackAware",
        "testAssignmentWithRackAwareWithRandomStartIndex",
        "testAssignmentWithRackAwareWithUnevenReplicas",
        "testAssignmentWithRackAwareWithUnevenRacks",
        "testAssignmentWith2ReplicasRackAware",
        "testRackAwareExpansion",
        "testAssignmentWith2ReplicasRackAwareWith6Partitions",
        "testAssignmentWith2ReplicasRackAwareWith6PartitionsAnd3Brokers",
        "testLargeNumberPartitionsAssignment",
    ],
)
def test_the_tests_of_kafka(
    racks: dict[int, str],
    partitions: int,
    factor: int,
    options: dict[str, Any],
    evenly_led: bool,
    evenly_spread: bool,
) -> None:
    for seed in range(20):
        assigned = assign_replicas(
            racks, partitions, factor, racks=racks, random=Random(seed), **options
        )
        assert len(assigned) == partitions
        for replicas in assigned.values():
            assert len(set(replicas)) == len({racks[each] for each in replicas}) == factor
        if evenly_led:
            assert leaders(assigned) == dict.fromkeys(racks, partitions // len(racks))
        if evenly_spread:
            each_has = partitions * factor // len(racks)
            assert all_replicas(assigned) == dict.fromkeys(racks, each_has)


@pytest.mark.parametrize(
    ("racks", "factor", "expected"),
    [(TWO_ON_ONE, 5, 3), (TWO_ON_ONE, 2, 2), (dict.fromkeys(range(6), "rack1"), 3, 1)],
    ids=["testMoreReplicasThanRacks", "testLessReplicasThanRacks", "testSingleRack"],
)
def test_the_racks_of_a_partition(racks: dict[int, str], factor: int, expected: int) -> None:
    for seed in range(20):
        assigned = assign_replicas(racks, 6, factor, racks=racks, random=Random(seed))
        assert [len(replicas) for replicas in assigned.values()] == [factor] * 6
        for replicas in assigned.values():
            assert len({racks[each] for each in replicas}) == expected
        assert leaders(assigned) == dict.fromkeys(racks, 1)


def test_a_broker_has_a_partition_once() -> None:
    """``testSkipBrokerWithReplicaAlreadyAssigned``."""
    racks = {0: "a", 1: "b", 2: "c", 3: "a", 4: "a"}
    for replicas in assign_replicas(range(5), 6, 4, fixed_start=2, racks=racks).values():
        assert len(set(replicas)) == 4


# --- properties ----------------------------------------------------------------------------------

brokers_with_racks = st.dictionaries(
    st.integers(0, 2**31 - 1), st.sampled_from("abcde"), min_size=1, max_size=12
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[int, str], bool, int]:
    racks = draw(brokers_with_racks)
    return racks, draw(st.booleans()), draw(st.integers(1, len(racks)))


@given(
    clusters(),
    st.integers(1, 60),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 100),
    st.randoms(use_true_random=False),
)
def test_replicas_are_distinct_and_leaders_even(
    cluster: tuple[dict[int, str], bool, int],
    partitions: int,
    start: int | None,
    first: int | None,
    random: Random,
) -> None:
    racks, on_racks, factor = cluster
    assigned = assign_replicas(
        racks, partitions, factor, start, first, racks if on_racks else None, random=random
    )
    assert list(assigned) == list(range(first or 0, (first or 0) + partitions))
    for replicas in assigned.values():
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= set(racks)
        if on_racks:
            covered = {racks[each] for each in replicas}
            assert len(covered) == min(factor, len(set(racks.values())))
    led = leaders(assigned)
    counts = [led[each] for each in racks]
    assert max(counts) - min(counts) <= 1


@given(
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 5),
    st.data(),
    st.booleans(),
)
def test_whole_rounds_spread_replicas_evenly(
    per_rack: int, racks: int, rounds: int, first_round: int, data: st.DataObject, on_racks: bool
) -> None:
    count = per_rack * racks
    factor = data.draw(st.integers(1, count))
    by_broker = {broker: f"rack{broker % racks}" for broker in range(count)}
    assigned = assign_replicas(
        range(count),
        count * rounds,
        factor,
        data.draw(st.none() | st.integers(0, 50)),
        first_round * count,
        by_broker if on_racks else None,
        random=data.draw(st.randoms(use_true_random=False)),
    )
    assert all_replicas(assigned) == dict.fromkeys(range(count), rounds * factor)


@given(clusters(), st.integers(1, 40), st.integers(0, 20), st.integers(1, 20))
def test_a_fixed_start_gives_the_same_again(
    cluster: tuple[dict[int, str], bool, int], partitions: int, start: int, seed: int
) -> None:
    racks, on_racks, factor = cluster
    used = racks if on_racks else None
    one, two = (
        assign_replicas(racks, partitions, factor, start, racks=used, random=Random(each))
        for each in (seed, -seed)
    )
    assert one == two


# --- racks ---------------------------------------------------------------------------------------

NODES = [Node(broker, "h", 1, rack) for broker, rack in MIXED.items()]
HALF = [*NODES, Node(6, "h", 1)]


def test_the_racks_of_nodes_count() -> None:
    assert assign_replicas(NODES, 7, 3, 0) == assign_replicas(MIXED, 7, 3, 0, racks=MIXED)
    others = dict.fromkeys(MIXED, "same")
    assert assign_replicas(NODES, 7, 3, 0, racks=others) == assign_replicas(range(6), 7, 3, 0)


def test_half_known_racks_are_refused() -> None:
    with pytest.raises(
        InvalidReplicaAssignmentError, match=r"brokers \[6\] have no rack.*disabled"
    ):
        assign_replicas(HALF, 7, 3)
    with pytest.raises(InvalidReplicaAssignmentError, match=r"brokers \[2, 3\]"):
        assign_replicas([1, 2, 3], 7, 3, racks={1: "a", 2: None})


@pytest.mark.parametrize("mode", ["safe", "disabled", RackAwareMode.SAFE])
def test_half_known_racks_are_ignored_if_asked(mode: str) -> None:
    expected = assign_replicas(range(7), 7, 3, 0)
    assert assign_replicas(HALF, 7, 3, 0, rack_mode=mode) == expected


def test_known_racks_are_used_unless_disabled() -> None:
    expected = assign_replicas(MIXED, 7, 3, 0, racks=MIXED)
    assert assign_replicas(NODES, 7, 3, 0, rack_mode="safe") == expected
    without = assign_replicas(range(6), 7, 3, 0)
    assert assign_replicas(NODES, 7, 3, 0, rack_mode="disabled") == without


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (([0, 1], 0, 1), InvalidPartitionsError, "partitions is an int from 1 .*not 0"),
        (([0, 1], "6", 1), InvalidPartitionsError, "partitions is an int from 1 .*not '6'"),
        (([0, 1], 1, 0), InvalidReplicationFactorError, "replication_factor is .*from 1 .*not 0"),
        (([0, "1"], 1, 1), InvalidReplicaAssignmentError, "brokers: .*not '1'"),
        (([0, 1], 1, 3), InvalidReplicationFactorError, "3 replicas .* there are 2: lower"),
        (([], 1, 1), InvalidReplicationFactorError, "1 replicas .* there are 0"),
        (([0, 1, 0], 1, 1), InvalidReplicaAssignmentError, r"\[0\] are repeated"),
        (([0, 1], 1, 1, -1), InvalidPartitionsError, "fixed_start is an int from 0"),
        (([0, 1], 1, 1, None, -1), InvalidPartitionsError, "start_partition is an int from 0"),
    ],
)
def test_an_impossible_assignment(
    arguments: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said) as caught:
        assign_replicas(*arguments)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_mode() -> None:
    with pytest.raises(ConfigError, match=r"'disabled', 'enforced', 'safe', not 'strict'"):
        assign_replicas([0], 1, 1, rack_mode="strict")


def test_the_leaders_of_added_partitions_go_on_round_the_brokers() -> None:
    first = assign_replicas(range(5), 7, 3, fixed_start=2)
    added = assign_replicas(range(5), 6, 3, fixed_start=2, start_partition=7)
    whole = assign_replicas(range(5), 13, 3, fixed_start=2)
    leaders = {partition: brokers[0] for partition, brokers in (first | added).items()}
    assert leaders == {partition: brokers[0] for partition, brokers in whole.items()}
