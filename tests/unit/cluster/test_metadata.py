"""The moments to ask for metadata, and the topics: tables, with a clock of numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from aioproducer.engine.cluster.metadata import Asked, Metadata
from aioproducer.engine.cluster.snapshot import ClusterView, PartitionLeader, TopicInfo
from aioproducer.errors import KafkaError
from aioproducer.model import BootstrapId, BootstrapServer, Node, TopicPartition
from tests.unit.cluster.known_cluster import (
    BACKOFF,
    BOOTSTRAP,
    BROKERS,
    MAX_AGE,
    NOW,
    REBOOTSTRAP_AFTER,
    asked,
    info,
    metadata,
    news,
    settled,
    told,
)


def test_nothing_is_asked_at_construction_and_the_bootstrap_list_is_the_first_cluster() -> None:
    it = metadata()
    assert it.next_refresh() is None
    it.request_update()
    assert it.next_refresh() is None, "no topic is used, so nobody needs it"
    assert tuple(it.peers) == BOOTSTRAP
    assert not it.snapshot.brokers
    assert it.last_update is None


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(Metadata.request_update, id="a coordinator can't be reached"),
        pytest.param(Metadata.misrouted, id="a broker is at the address of another one"),
        pytest.param(lambda it: it.rebootstrap(NOW), id="no known broker answers"),
        pytest.param(lambda it: it.leave_cluster(), id="another cluster answers"),
    ],
)
def test_the_brokers_are_asked_for_although_every_topic_is_forgotten(
    happens: Callable[[Metadata], object],
) -> None:
    """A transaction may have to end after its topics were not used for long."""
    it = settled()
    it.forget(it.topics)
    assert it.next_refresh() is None, "no topic is used, and the brokers are known"
    happens(it)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)
    request = it.start(NOW + BACKOFF)
    assert request.full
    assert not request.topics
    told(it, news(), request)
    assert it.next_refresh() is None


def _use_known(it: Metadata) -> None:
    it.use("orders", NOW)


def _use_new(it: Metadata) -> None:
    it.use("fresh", NOW)


def _started(it: Metadata) -> None:
    it.start(NOW)


def _start_then_want(it: Metadata) -> None:
    it.start(NOW)
    it.request_update()
    it.use("fresh", NOW)


def _fail(times: int) -> Callable[[Metadata], None]:
    def fail(it: Metadata) -> None:
        for _ in range(times):
            it.request_update()
            it.start(NOW)
            it.failed(NOW)

    return fail


def _fail_then_use_new(it: Metadata) -> None:
    _fail(5)(it)
    it.use("fresh", NOW)


def _answer(code: int) -> Callable[[Metadata], None]:
    def answer(it: Metadata) -> None:
        it.use("fresh", NOW)
        asked(it, news(info("orders"), fresh=code))

    return answer


def _answer_without_a_word(it: Metadata) -> None:
    it.use("fresh", NOW)
    asked(it, news(info("orders")))


def _no_brokers(it: Metadata) -> None:
    asked(it, news(info("orders"), brokers=False))


def _stale_leader_error(it: Metadata) -> None:
    asked(it, news(orders=5))


def _new_topic_while_asking(it: Metadata) -> None:
    request = it.start(NOW)
    it.use("fresh", NOW)
    told(it, news(info("orders")), request)


def _want_during_update(it: Metadata) -> None:
    request = it.start(NOW)
    it.request_update()
    told(it, news(info("orders")), request)


@pytest.mark.parametrize(
    ("happens", "due"),
    [
        pytest.param(lambda it: None, NOW + MAX_AGE, id="by age alone"),
        pytest.param(_use_known, NOW + MAX_AGE, id="a known topic is used again"),
        pytest.param(Metadata.request_update, NOW + BACKOFF, id="wanted, after the backoff"),
        pytest.param(_use_new, 0.0, id="a new topic goes round the backoff"),
        pytest.param(_started, None, id="in progress"),
        pytest.param(_start_then_want, None, id="in progress, and wanted again"),
        pytest.param(_fail(1), NOW + BACKOFF, id="failed once"),
        pytest.param(_fail(2), NOW + 2 * BACKOFF, id="failed twice"),
        pytest.param(_fail(20), NOW + 1.0, id="failed for long"),
        pytest.param(_fail_then_use_new, 0.0, id="failed for long, then a new topic"),
        pytest.param(_answer(3), NOW + BACKOFF, id="an unknown topic is asked for again"),
        pytest.param(_answer(5), NOW + BACKOFF, id="a topic being created"),
        pytest.param(_answer_without_a_word, NOW + BACKOFF, id="a topic that was left out"),
        pytest.param(_answer(17), NOW + MAX_AGE, id="an invalid topic stays so"),
        pytest.param(_answer(29), NOW + MAX_AGE, id="a forbidden topic stays so"),
        pytest.param(_no_brokers, NOW + BACKOFF, id="a broker that knows no broker"),
        pytest.param(_stale_leader_error, NOW + BACKOFF, id="an error of a known topic"),
        pytest.param(_new_topic_while_asking, 0.0, id="a topic that came while it was asked"),
    ],
)
def test_next_refresh(happens: Callable[[Metadata], None], due: float | None) -> None:
    it = settled()
    happens(it)
    assert it.next_refresh() == (due if due is None else pytest.approx(due))


def test_a_wish_during_a_refresh_outlives_it() -> None:
    """The leader moved after the broker had answered: the answer may be older than the wish."""
    it = settled()
    _want_during_update(it)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)


def test_an_unknown_topic_is_asked_for_with_growing_waits_until_it_is_there() -> None:
    it = metadata()
    it.use("orders", NOW)
    waits = []
    now = NOW
    for _ in range(6):
        asked(it, news(orders=3), now)
        due = it.next_refresh()
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert isinstance(it.errors["orders"], KafkaError)
    asked(it, news(info("orders")), now)
    assert it.errors == {}
    assert it.next_refresh() == pytest.approx(now + MAX_AGE)
    it.request_update()
    it.start(now)
    it.failed(now)
    assert it.next_refresh() == pytest.approx(now + 0.1), "success forgot the failures"


def test_a_partition_without_leader_is_asked_for_with_growing_waits_until_it_has_one() -> None:
    """Whether or not records wait for it: keyless ones go elsewhere, and would for long."""
    it = settled()
    known, now = info("orders"), NOW
    for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF):
        it.request_update()
        asked(it, replace(news(known), stale={"orders"}), now)
        assert it.next_refresh() == pytest.approx(now + wait)
        now += wait
    asked(it, news(known), now)
    assert it.next_refresh() == now + MAX_AGE


def test_age_does_not_go_round_the_backoff() -> None:
    it = metadata(max_age=0.0)
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)


def test_the_first_refresh_is_due_at_once_whatever_the_clock_says() -> None:
    it = metadata()
    it.use("orders", 0.0)
    due = it.next_refresh()
    assert due is not None
    assert due <= 0.0


def test_one_refresh_serves_any_number_of_waiters_and_topics() -> None:
    it = metadata()
    for number in range(100):
        it.use(f"topic-{number % 10}", NOW)
    assert it.next_refresh() == 0.0
    assert it.topics == {f"topic-{number}" for number in range(10)}
    it.start(NOW)
    for _ in range(100):
        it.use("topic-0", NOW)
        it.request_update()
    assert it.next_refresh() is None


def test_an_update_is_dated() -> None:
    it = settled()
    assert it.last_update == NOW
    assert it.snapshot.leader("orders", 0) == BROKERS[1]
    asked(it, news(info("orders")), NOW + 7)
    assert it.last_update == NOW + 7
    it.start(NOW + 8)
    it.failed(NOW + 8)
    assert it.last_update == NOW + 7


def test_more_partitions_are_noticed() -> None:
    it = settled()
    asked(it, news(info("orders", partitions=3, leader=2, epoch=1)))
    assert len(it.snapshot.topics["orders"].partitions) == 3
    assert it.snapshot.leader("orders", 2) == BROKERS[2]


def test_a_broker_that_lags_behind_does_not_bring_old_leaders_back() -> None:
    it = settled()
    asked(it, news(info("orders", leader=2, epoch=5)))
    asked(it, news(info("orders", leader=1, epoch=4)))
    assert it.snapshot.leader("orders", 0) == BROKERS[2]


def test_an_answer_without_brokers_keeps_what_is_known() -> None:
    it = settled()
    asked(it, news(info("orders", leader=2, epoch=5), brokers=False))
    assert dict(it.snapshot.brokers) == BROKERS
    assert it.snapshot.leader("orders", 0) == BROKERS[1]


def test_errors_are_those_of_the_last_answer_for_each_topic_asked() -> None:
    it = metadata()
    it.use("one", NOW)
    it.use("two", NOW)
    asked(it, news(one=3, two=29))
    told(it, news(one=17), Asked(frozenset({"one"}), full=False))
    assert {topic: error.code for topic, error in it.errors.items()} == {"one": 17, "two": 29}
    told(it, news(info("one")), Asked(frozenset({"one"}), full=False))
    assert set(it.errors) == {"two"}


def test_a_fatal_error_does_not_stop_the_search_for_other_topics() -> None:
    it = metadata()
    it.use("forbidden", NOW)
    it.use("fresh", NOW)
    asked(it, news(forbidden=29, fresh=3))
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)


def test_a_known_topic_with_an_error_keeps_its_leaders() -> None:
    it = settled()
    asked(it, news(orders=5))
    assert it.snapshot.leader("orders", 0) == BROKERS[1]


def test_hints_of_a_produce_response() -> None:
    it = settled()
    place = TopicPartition("orders", 0)
    moved = Node(3, "host3", 9092)
    it.take_hints({place: PartitionLeader(0, 3, 0)}, {3: moved})
    assert it.snapshot.leader(*place) == BROKERS[1], "its epoch is no higher"
    it.take_hints({place: PartitionLeader(0, 3, 1)}, {3: moved})
    assert it.snapshot.leader(*place) == moved


def test_hints_do_not_bring_back_brokers_that_were_given_up() -> None:
    it = settled()
    it.rebootstrap(NOW)
    it.take_hints({TopicPartition("orders", 0): PartitionLeader(0, 3, 9)}, {3: Node(3, "h", 1)})
    assert it.snapshot.brokers == {}


def test_a_wrong_broker_is_looked_up_at_the_bootstrap_servers_and_the_others_stay() -> None:
    it = settled()
    it.misrouted()
    assert it.snapshot.leader("orders", 0) == BROKERS[1]
    assert it.peers == it.bootstrap
    assert it.is_full_refresh_due(NOW)
    asked(it, news(orders=0))
    assert it.peers != it.bootstrap


def test_without_recovery_a_wrong_broker_changes_nothing() -> None:
    it = metadata(rebootstrap_after=None)
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    it.misrouted()
    assert it.peers != it.bootstrap


@pytest.mark.parametrize(
    ("topics", "ids"),
    [
        (["orders"], {"orders": UUID(int=1)}),
        (["orders", "unknown"], {}),
        (["unknown"], {}),
        ([], {}),
    ],
)
def test_the_ids_of_topics_are_all_there_or_none(topics: list[str], ids: dict[str, UUID]) -> None:
    known = TopicInfo("orders", UUID(int=1), (PartitionLeader(0, 1, 0),))
    assert ClusterView(BROKERS, [known]).topic_ids(topics) == ids


@pytest.mark.parametrize(
    ("later", "due"), [(0.0, False), (REBOOTSTRAP_AFTER - 0.001, False), (REBOOTSTRAP_AFTER, True)]
)
def test_rebootstrap_is_due_when_no_broker_has_answered_for_long(later: float, due: bool) -> None:
    it = settled()
    assert it.rebootstrap_at > NOW + 1e6, "nobody was asked, so nobody failed to answer"
    it.tries(NOW)
    it.start(NOW)
    it.failed(NOW)
    it.start(NOW + later)
    assert (it.rebootstrap_at <= NOW + later) is due


def test_an_answer_ends_the_wait_for_a_rebootstrap() -> None:
    it = settled()
    it.tries(NOW)
    it.start(NOW)
    it.failed(NOW)
    asked(it, news(info("orders")), NOW + REBOOTSTRAP_AFTER - 1)
    it.tries(NOW + REBOOTSTRAP_AFTER)
    assert it.rebootstrap_at > NOW + REBOOTSTRAP_AFTER


def test_rebootstrap_begins_again_with_the_bootstrap_list_and_keeps_topics_and_leaders() -> None:
    it = settled()
    it.tries(NOW)
    it.start(NOW)
    it.failed(NOW)
    assert it.may_rebootstrap
    it.rebootstrap(NOW + 60)
    assert tuple(it.peers) == BOOTSTRAP
    assert not it.snapshot.brokers
    assert it.topics == {"orders"}
    assert it.snapshot.topics["orders"].partitions[0].leader == 1
    assert not it.may_rebootstrap, "it is on the bootstrap list already"
    due = it.next_refresh()
    assert due is not None
    assert due <= NOW + 60
    assert it.rebootstrap_at > NOW + 60 + REBOOTSTRAP_AFTER - 1, "its time begins anew"
    asked(it, news(info("orders")), NOW + 61)
    assert it.snapshot.leader("orders", 0) == BROKERS[1]
    assert it.may_rebootstrap


def test_a_producer_that_shall_not_rebootstrap_never_does() -> None:
    it = metadata(rebootstrap_after=None)
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    it.tries(NOW)
    it.start(NOW)
    it.failed(NOW)
    assert it.rebootstrap_at > NOW + 1e9
    assert not it.may_rebootstrap


def test_other_bootstrap_servers() -> None:
    it = metadata()
    canonical = BootstrapServer(BootstrapId("-1"), "canonical", 9092)
    it.set_bootstrap([canonical])
    assert tuple(it.peers) == (canonical,)
    assert not it.may_rebootstrap
