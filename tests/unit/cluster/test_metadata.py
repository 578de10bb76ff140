"""When to ask for metadata, of which topics: the schedule as tables, with a clock of numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.cluster.metadata_response import MetadataNews
from aioproducer.cluster.snapshot import ClusterSnapshot, PartitionInfo, TopicInfo
from aioproducer.errors import KafkaError, ProducerError, kafka_error
from aioproducer.model import BootstrapId, BootstrapServer, Node, TopicPartition

MAX_AGE, MAX_IDLE, REBOOTSTRAP_AFTER = 300.0, 900.0, 60.0
BACKOFF = 0.1
BOOTSTRAP = (
    BootstrapServer(BootstrapId("-1"), "boot", 9092),
    BootstrapServer(BootstrapId("-2"), "boot2", 9092),
)
BROKERS = {number: Node(number, f"host{number}", 9092) for number in (1, 2)}
NOW = 1000.0


class NoJitter(Random):
    def random(self) -> float:
        return 0.5


def metadata(**changes: Any) -> Metadata:
    options: dict[str, Any] = {
        "max_age": MAX_AGE,
        "max_idle": MAX_IDLE,
        "backoff": ExponentialBackoff(BACKOFF, 1.0, NoJitter()),
        "rebootstrap_after": REBOOTSTRAP_AFTER,
    }
    return Metadata(BOOTSTRAP, **{**options, **changes})


def info(name: str, partitions: int = 1, leader: int = 1, epoch: int = 0) -> TopicInfo:
    return TopicInfo(
        name, None, tuple(PartitionInfo(index, leader, epoch) for index in range(partitions))
    )


def news(*known: TopicInfo, brokers: bool = True, **errors: int) -> MetadataNews:
    """What a broker says: topics that it knows, and error codes of those it does not."""
    snapshot = ClusterSnapshot(BROKERS if brokers else {}, {each.name: each for each in known})
    explained: dict[str, KafkaError] = {
        topic: kafka_error(code, f"topic {topic!r}") for topic, code in errors.items()
    }
    return MetadataNews(snapshot, explained)


def asked(it: Metadata, answer: MetadataNews, now: float = NOW) -> None:
    """One whole refresh."""
    topics = it.topics
    it.started(now)
    it.update(answer, topics, now)


def settled() -> Metadata:
    """Knows ``orders`` since NOW."""
    it = metadata()
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    return it


# --- when the next refresh is due ---------------------------------------------------------------


def test_nothing_is_asked_at_construction_and_the_bootstrap_list_is_the_first_cluster() -> None:
    it = metadata()
    assert it.next_refresh(NOW) is None
    it.request_update()
    assert it.next_refresh(NOW) is None, "no topic is used, so nobody needs it"
    assert tuple(it.peers) == BOOTSTRAP
    assert not it.snapshot.brokers
    assert it.last_update is None


def _use_known(it: Metadata) -> None:
    it.use("orders", NOW)


def _use_new(it: Metadata) -> None:
    it.use("fresh", NOW)


def _started(it: Metadata) -> None:
    it.started(NOW)


def _start_then_want(it: Metadata) -> None:
    it.started(NOW)
    it.request_update()
    it.use("fresh", NOW)


def _fail(times: int) -> Callable[[Metadata], None]:
    def fail(it: Metadata) -> None:
        for _ in range(times):
            it.started(NOW)
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
    topics = it.topics
    it.started(NOW)
    it.use("fresh", NOW)
    it.update(news(info("orders")), topics, NOW)


def _want_during_update(it: Metadata) -> None:
    topics = it.topics
    it.started(NOW)
    it.request_update()
    it.update(news(info("orders")), topics, NOW)


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
        pytest.param(_new_topic_while_asking, NOW, id="a topic that came while it was asked"),
    ],
)
def test_next_refresh(happens: Callable[[Metadata], None], due: float | None) -> None:
    it = settled()
    happens(it)
    assert it.next_refresh(NOW) == (due if due is None else pytest.approx(due))


def test_a_wish_during_a_refresh_outlives_it() -> None:
    """The leader moved after the broker had answered: the answer may be older than the wish."""
    it = settled()
    _want_during_update(it)
    assert it.next_refresh(NOW) == pytest.approx(NOW + BACKOFF)


def test_an_unknown_topic_is_asked_for_with_growing_waits_until_it_is_there() -> None:
    it = metadata()
    it.use("orders", NOW)
    waits = []
    now = NOW
    for _ in range(6):
        asked(it, news(orders=3), now)
        due = it.next_refresh(now)
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    assert isinstance(it.errors["orders"], KafkaError)
    asked(it, news(info("orders")), now)
    assert it.errors == {}
    assert it.next_refresh(now) == pytest.approx(now + MAX_AGE)
    it.started(now)
    it.failed(now)
    assert it.next_refresh(now) == pytest.approx(now + 0.1), "success forgot the failures"


def test_a_partition_without_leader_is_asked_for_with_growing_waits_until_it_has_one() -> None:
    """Whether or not records wait for it: keyless ones go elsewhere, and would for long."""
    it = settled()
    known, now = info("orders"), NOW
    for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF):
        it.request_update()
        asked(it, news(known)._replace(stale=True), now)
        assert it.next_refresh(now) == pytest.approx(now + wait)
        now += wait
    asked(it, news(known), now)
    assert it.next_refresh(now) == now + MAX_AGE


def test_age_does_not_go_round_the_backoff() -> None:
    it = metadata(max_age=0.0)
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    assert it.next_refresh(NOW) == pytest.approx(NOW + BACKOFF)


def test_the_first_refresh_is_due_at_once_whatever_the_clock_says() -> None:
    it = metadata()
    it.use("orders", 0.0)
    due = it.next_refresh(0.0)
    assert due is not None
    assert due <= 0.0


def test_one_refresh_serves_any_number_of_waiters_and_topics() -> None:
    it = metadata()
    for number in range(100):
        it.use(f"topic-{number % 10}", NOW)
    assert it.next_refresh(NOW) == 0.0
    assert it.topics == {f"topic-{number}" for number in range(10)}
    it.started(NOW)
    for _ in range(100):
        it.use("topic-0", NOW)
        it.request_update()
    assert it.next_refresh(NOW) is None


# --- what an answer changes ---------------------------------------------------------------------


def test_an_update_is_dated() -> None:
    it = settled()
    assert it.last_update == NOW
    assert it.snapshot.leader("orders", 0) == BROKERS[1]
    asked(it, news(info("orders")), NOW + 7)
    assert it.last_update == NOW + 7
    it.started(NOW + 8)
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
    it.update(news(one=17), frozenset({"one"}), NOW)
    assert {topic: error.code for topic, error in it.errors.items()} == {"one": 17, "two": 29}
    it.update(news(info("one")), frozenset({"one"}), NOW)
    assert set(it.errors) == {"two"}


def test_a_fatal_error_does_not_stop_the_search_for_other_topics() -> None:
    it = metadata()
    it.use("forbidden", NOW)
    it.use("fresh", NOW)
    asked(it, news(forbidden=29, fresh=3))
    assert it.next_refresh(NOW) == pytest.approx(NOW + BACKOFF)


def test_a_known_topic_with_an_error_keeps_its_leaders() -> None:
    it = settled()
    asked(it, news(orders=5))
    assert it.snapshot.leader("orders", 0) == BROKERS[1]


def test_hints_of_a_produce_response() -> None:
    it = settled()
    place = TopicPartition("orders", 0)
    moved = Node(3, "host3", 9092)
    it.take_hints({place: PartitionInfo(0, 3, 0)}, {3: moved})
    assert it.snapshot.leader(*place) == BROKERS[1], "its epoch is no higher"
    it.take_hints({place: PartitionInfo(0, 3, 1)}, {3: moved})
    assert it.snapshot.leader(*place) == moved


# --- who waits for a topic ----------------------------------------------------------------------


class Told:
    """The future of somebody who waits."""

    def __init__(self) -> None:
        self.results: list[TopicInfo | ProducerError] = []
        self.given_up = False

    def done(self) -> bool:
        return self.given_up or bool(self.results)

    def set_result(self, result: TopicInfo | ProducerError, /) -> None:
        self.results.append(result)


def waiting(it: Metadata, topic: str = "fresh") -> Told:
    told = Told()
    it.wait_for(topic, told, NOW)
    return told


def test_who_waits_for_a_topic_is_told_when_it_is_known_and_not_before() -> None:
    it = settled()
    told = [waiting(it), waiting(it)]
    other = waiting(it, "other")
    assert it.next_refresh(NOW) == 0.0, "it is asked for at once"
    asked(it, news(fresh=3))
    assert [each.results for each in told] == [[], []]
    asked(it, news(info("fresh", 2)))
    assert [each.results for each in told] == [[info("fresh", 2)]] * 2
    assert not other.done()
    asked(it, news(info("fresh", 3), info("other")))
    assert [each.results for each in told] == [[info("fresh", 2)]] * 2


def test_who_waits_for_a_topic_is_told_that_it_is_refused() -> None:
    it = metadata()
    refused = waiting(it)
    asked(it, news(fresh=29))
    assert refused.results == [it.errors["fresh"]]
    again = waiting(it)
    assert it.next_refresh(NOW) is not None, "what was refused before is asked anew"
    asked(it, news(other=29))
    assert not again.done(), "the answer said nothing of it"
    asked(it, news(info("fresh")))
    assert again.results == [info("fresh")]


def test_who_gave_up_waiting_is_told_nothing() -> None:
    it = metadata()
    gone, cancelled, stays = waiting(it), waiting(it), waiting(it)
    it.wait_no_longer("fresh", gone)
    it.wait_no_longer("fresh", gone)
    cancelled.given_up = True
    asked(it, news(info("fresh")))
    assert (gone.results, cancelled.results) == ([], [])
    assert stays.results == [info("fresh")]
    it.wait_no_longer("fresh", stays)


def test_who_waits_when_nothing_is_asked_any_more_is_told_why() -> None:
    it = metadata()
    told = [waiting(it), waiting(it, "other")]
    error = ProducerError("closed")
    it.close(error)
    assert [each.results for each in told] == [[error], [error]]


def test_a_topic_that_is_waited_for_is_not_idle() -> None:
    it = metadata()
    told = waiting(it)
    assert it.idle_topics(NOW + MAX_IDLE) == frozenset()
    it.wait_no_longer("fresh", told)
    assert it.idle_topics(NOW + MAX_IDLE) == {"fresh"}


# --- idle topics --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "idle"), [(0.0, False), (MAX_IDLE - 0.001, False), (MAX_IDLE, True), (1e6, True)]
)
def test_a_topic_unused_for_long_is_idle(later: float, idle: bool) -> None:
    it = settled()
    it.use("busy", NOW + later)
    assert it.idle_topics(NOW + later) == ({"orders"} if idle else set())


def test_a_forgotten_topic_is_gone_and_is_new_when_it_comes_back() -> None:
    it = settled()
    it.use("other", NOW)
    asked(it, news(info("orders"), other=3))
    it.forget(frozenset({"orders", "other"}))
    assert it.topics == frozenset()
    assert not it.snapshot.topics
    assert not it.errors
    assert it.next_refresh(NOW) is None, "nobody needs a refresh"
    it.use("orders", NOW)
    assert it.next_refresh(NOW) == 0.0


# --- the cluster is gone ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "due"), [(0.0, False), (REBOOTSTRAP_AFTER - 0.001, False), (REBOOTSTRAP_AFTER, True)]
)
def test_rebootstrap_is_due_when_no_broker_has_answered_for_long(later: float, due: bool) -> None:
    it = settled()
    assert not it.rebootstrap_due(NOW + 1e6), "nobody was asked, so nobody failed to answer"
    it.started(NOW)
    it.failed(NOW)
    it.started(NOW + later)
    assert it.rebootstrap_due(NOW + later) is due


def test_an_answer_ends_the_wait_for_a_rebootstrap() -> None:
    it = settled()
    it.started(NOW)
    it.failed(NOW)
    asked(it, news(info("orders")), NOW + REBOOTSTRAP_AFTER - 1)
    it.started(NOW + REBOOTSTRAP_AFTER)
    assert not it.rebootstrap_due(NOW + REBOOTSTRAP_AFTER)


def test_rebootstrap_begins_again_with_the_bootstrap_list_and_keeps_topics_and_leaders() -> None:
    it = settled()
    it.started(NOW)
    it.failed(NOW)
    assert it.may_rebootstrap
    it.rebootstrap(NOW + 60)
    assert tuple(it.peers) == BOOTSTRAP
    assert not it.snapshot.brokers
    assert it.topics == {"orders"}
    assert it.snapshot.topics["orders"].partitions[0].leader == 1
    assert not it.may_rebootstrap, "it is on the bootstrap list already"
    due = it.next_refresh(NOW + 60)
    assert due is not None
    assert due <= NOW + 60
    assert not it.rebootstrap_due(NOW + 60 + REBOOTSTRAP_AFTER - 1), "its time begins anew"
    asked(it, news(info("orders")), NOW + 61)
    assert it.snapshot.leader("orders", 0) == BROKERS[1]
    assert it.may_rebootstrap


def test_a_producer_that_shall_not_rebootstrap_never_does() -> None:
    it = metadata(rebootstrap_after=None)
    it.use("orders", NOW)
    asked(it, news(info("orders")))
    it.started(NOW)
    it.failed(NOW)
    assert not it.rebootstrap_due(NOW + 1e9)
    assert not it.may_rebootstrap


def test_other_bootstrap_servers() -> None:
    it = metadata()
    canonical = BootstrapServer(BootstrapId("-1"), "canonical", 9092)
    it.set_bootstrap([canonical])
    assert tuple(it.peers) == (canonical,)
    assert not it.may_rebootstrap
