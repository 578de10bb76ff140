"""When metadata is asked for, of which topics, and at what cost: with a clock of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

import pytest

from aioproducer.engine.cluster.metadata import Asked, Metadata
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import ClusterView, PartitionLeader, TopicInfo
from aioproducer.errors import BrokerConnectionError, KafkaError, ProducerError, kafka_error
from aioproducer.model import BootstrapId, BootstrapServer, Node, PartitionInfo, TopicPartition
from tests.support.operations import counted_lines
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

NO_ANSWER = BrokerConnectionError("broken")


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
        pytest.param(
            lambda it: it.broker_failed(transactional=True), id="a coordinator can't be reached"
        ),
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


@pytest.mark.parametrize("in_use", [True, False])
def test_a_lost_broker_is_asked_about_while_topics_are_used(in_use: bool) -> None:
    """A proxy that ends unused connections would be connected to again and again."""
    it = settled()
    if not in_use:
        it.forget(it.topics)
    it.broker_failed(transactional=False)
    assert it.next_refresh() == (pytest.approx(NOW + BACKOFF) if in_use else None)
    it.use("fresh", NOW)
    assert it.start(NOW).full is in_use


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
            it.failed(NO_ANSWER, NOW)

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
    it.failed(NO_ANSWER, now)
    assert it.next_refresh() == pytest.approx(now + 0.1), "success forgot the failures"


def test_a_partition_without_leader_is_asked_for_with_growing_waits_until_it_has_one() -> None:
    """Whether or not records wait for it: keyless ones go elsewhere, and would for long."""
    it = settled()
    known, now = info("orders"), NOW
    for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF):
        it.request_update()
        asked(it, news(known)._replace(stale={"orders"}), now)
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
    it.failed(NO_ANSWER, NOW + 8)
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


@pytest.mark.parametrize("answers", [True, False])
def test_a_topic_that_stays_unknown_is_told_from_brokers_that_do_not_answer(
    *, answers: bool
) -> None:
    it = settled()
    it.use("new", NOW)
    if answers:
        asked(it, news(info("orders"), new=3))
    else:
        it.start(NOW)
        it.failed(NO_ANSWER, NOW)
    error = it.why_no_metadata("new", 60.0, lambda: dict.fromkeys(BROKERS, NO_ANSWER))
    assert str(error).startswith("topic 'new' is unknown after 60 s")
    assert ("Check its name" in str(error)) is answers
    assert ("No broker has described it. broken" in str(error)) is not answers
    assert isinstance(error.__cause__, KafkaError if answers else BrokerConnectionError)


@pytest.mark.parametrize("asks_again", [False, True])
def test_a_topic_that_brokers_leave_out_is_not_blamed_on_silence(*, asks_again: bool) -> None:
    it = settled()
    it.use("new", NOW)
    asked(it, news(info("orders")))
    if asks_again:
        it.start(NOW + BACKOFF)
    error = it.why_no_metadata("new", 60.0, dict)
    assert str(error).endswith(
        "Check its name and that it exists, or raise the timeout: a broker has left it out of its "
        "response"
    )
    assert error.__cause__ is None


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
    it.update_leaders({place: PartitionLeader(0, 3, 0)}, {3: moved})
    assert it.snapshot.leader(*place) == BROKERS[1], "its epoch is no higher"
    it.update_leaders({place: PartitionLeader(0, 3, 1)}, {3: moved})
    assert it.snapshot.leader(*place) == moved


def test_hints_do_not_bring_back_brokers_that_were_given_up() -> None:
    it = settled()
    it.rebootstrap(NOW)
    it.update_leaders({TopicPartition("orders", 0): PartitionLeader(0, 3, 9)}, {3: Node(3, "h", 1)})
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
    it.failed(NO_ANSWER, NOW)
    it.start(NOW + later)
    assert (it.rebootstrap_at <= NOW + later) is due


def test_an_answer_ends_the_wait_for_a_rebootstrap() -> None:
    it = settled()
    it.tries(NOW)
    it.start(NOW)
    it.failed(NO_ANSWER, NOW)
    asked(it, news(info("orders")), NOW + REBOOTSTRAP_AFTER - 1)
    it.tries(NOW + REBOOTSTRAP_AFTER)
    assert it.rebootstrap_at > NOW + REBOOTSTRAP_AFTER


def test_rebootstrap_begins_again_with_the_bootstrap_list_and_keeps_topics_and_leaders() -> None:
    it = settled()
    it.tries(NOW)
    it.start(NOW)
    it.failed(NO_ANSWER, NOW)
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
    it.failed(NO_ANSWER, NOW)
    assert it.rebootstrap_at > NOW + 1e9
    assert not it.may_rebootstrap


def test_other_bootstrap_servers() -> None:
    it = metadata()
    canonical = BootstrapServer(BootstrapId("-1"), "canonical", 9092)
    it.set_bootstrap([canonical])
    assert tuple(it.peers) == (canonical,)
    assert not it.may_rebootstrap


def many(count: int = 5) -> Metadata:
    """Knows so many topics since NOW."""
    it = metadata()
    names = [f"t{number}" for number in range(count)]
    for name in names:
        it.use(name, NOW)
    asked(it, news(*map(info, names)))
    return it


def test_a_new_topic_is_asked_for_alone_and_what_is_known_of_others_keeps_its_age() -> None:
    it = many()
    assert it.last_full_update == NOW
    it.use("new", NOW + 7)
    assert it.next_refresh() == 0.0
    request = it.start(NOW + 7)
    assert request == (frozenset({"new"}), False)
    assert told(it, news(info("new")), request, NOW + 7) == ["new"]
    assert set(it.snapshot.topics) == {"new", "t0", "t1", "t2", "t3", "t4"}
    assert (it.last_update, it.last_full_update) == (NOW + 7, NOW)
    assert it.next_refresh() == NOW + MAX_AGE
    assert it.start(NOW + MAX_AGE) == (it.topics, True)


def test_a_deleted_topic_is_asked_for_alone_and_less_and_less_often() -> None:
    it, now, requests = many(), NOW, []
    it.request_update("t3")
    for _ in range(7):
        due = it.next_refresh()
        assert due is not None
        requests.append((round(due - now, 3), it.start(due)))
        told(it, news(t3=3), requests[-1][1], due)
        it.request_update("t3")
        now = due
    assert [wait for wait, _ in requests] == [0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert {request for _, request in requests} == {(frozenset({"t3"}), False)}
    assert it.snapshot.topics["t3"] == info("t3"), "its leaders may be needed yet"


def test_a_topic_without_leader_is_asked_for_alone() -> None:
    it = many()
    asked(it, news(*map(info, it.topics))._replace(stale={"t1"}), NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)
    assert it.start(NOW + BACKOFF) == (frozenset({"t1"}), False)


def test_topics_that_are_in_doubt_at_the_same_time_share_a_request() -> None:
    it = many()
    for topic in ("t1", "t4", "t1"):
        it.request_update(topic)
    assert it.start(NOW + BACKOFF) == (frozenset({"t1", "t4"}), False)


def test_doubt_about_the_brokers_asks_for_all_topics() -> None:
    it = many()
    it.request_update("t1")
    it.request_update()
    assert it.start(NOW + BACKOFF) == (it.topics, True)
    assert it.next_refresh() is None


def test_a_full_request_without_answer_is_made_again_as_one() -> None:
    it = many()
    it.request_update()
    it.start(NOW)
    it.failed(NO_ANSWER, NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)
    assert it.start(NOW + BACKOFF).full


def test_only_what_is_new_is_told() -> None:
    it = many()
    it.request_update()
    answer = news(*map(info, ("t0", "t1", "t2", "t3")), info("t4", 3))
    assert told(it, answer, it.start(NOW)) == ["t4"]


def test_a_topic_that_lacks_what_is_wanted_is_asked_for_again_later_each_time() -> None:
    """A partition beyond the known ones is wanted of it, say, as long as records wait for it."""
    it, now, waits = many(), NOW, []
    it.seek("t2", NOW)
    for _ in range(6):
        due = it.next_refresh()
        assert due is not None
        waits.append(due - now)
        request = it.start(due)
        assert request == (frozenset({"t2"}), False)
        it.seek("t2", due)  # more records come, whose answer is under way
        list(it.update(news(info("t2")), request, due, lacks=lambda topic: topic == "t2"))
        now = due
    assert waits == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8, 1.0])
    due = it.next_refresh()
    assert due is not None
    list(it.update(news(info("t2")), it.start(due), due, lacks=lambda _: False))
    assert it.next_refresh() == NOW + MAX_AGE


def test_who_seeks_a_topic_whose_turn_in_an_answer_is_over_is_not_forgotten() -> None:
    it = many(1)
    it.request_update("t0")
    taking = it.update(news(info("t0")), it.start(NOW + BACKOFF), NOW)
    next(taking)
    it.seek("t0", NOW)  # in time
    assert list(taking) == []
    assert it.next_refresh() == NOW + MAX_AGE
    it.seek("t0", NOW)
    assert it.next_refresh() == pytest.approx(NOW + BACKOFF)


def test_a_hint_that_comes_while_an_answer_is_read_is_not_undone_by_it() -> None:
    it = many(2)
    it.request_update()
    taking = it.update(news(info("t0", 1, 1, 0), info("t1", 1, 1, 0)), it.start(NOW), NOW)
    place = TopicPartition("t1", 0)
    it.update_leaders({place: PartitionLeader(0, 2, 1)}, {})
    assert [each for each in taking if each is not None] == []
    assert it.snapshot.leader(*place) == BROKERS[2]


class Detailed:
    def __init__(self) -> None:
        self.results: list[tuple[PartitionInfo, ...] | ProducerError] = []

    def done(self) -> bool:
        return bool(self.results)

    def set_result(self, result: tuple[PartitionInfo, ...] | ProducerError, /) -> None:
        self.results.append(result)


def test_replicas_are_asked_for_anew_and_given_to_those_who_want_them() -> None:
    it = many()
    wanted, refused, gone = Detailed(), Detailed(), Detailed()
    it.wait_for_details("t1", wanted, NOW)
    it.wait_for_details("t2", refused, NOW)
    it.wait_for_details("t3", gone, NOW)
    it.wait_no_longer("t3", gone)
    assert set(it.detailed) == {"t1", "t2"}
    request = it.start(NOW + BACKOFF)
    assert request == (frozenset({"t1", "t2", "t3"}), False)
    details = (PartitionInfo("t1", 0, BROKERS[1], (BROKERS[1],), (BROKERS[1],)),)
    told(it, news(info("t1"), info("t3"), t2=29)._replace(details={"t1": details}), request)
    assert wanted.results == [details]
    assert refused.results == [it.errors["t2"]]
    assert (gone.results, set(it.detailed)) == ([], set())
    late = Detailed()
    it.wait_for_details("t4", late, NOW)
    assert "t4" not in it.idle_topics(NOW + 1e6)
    closed = ProducerError("closed")
    it.tell_waiting(closed)
    assert late.results == [closed]


FEW, MANY = 500, 4_000
ROUNDING = 1.15
UNKNOWN_TOPIC = 3


def _names(count: int) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def _ask(it: Metadata, *, known: bool = True) -> list[int]:
    """Ask until nothing is due; returns the number of topics of each request."""
    asked = []
    while (due := it.next_refresh()) is not None and due <= NOW:
        request = it.start(NOW)
        asked.append(len(request.topics))
        if known:
            told(it, news(*(info(name) for name in request.topics)), request)
        else:
            told(it, _unknown(request.topics), request)
    return asked


def _unknown(topics: Iterable[str]) -> MetadataNews:
    error = kafka_error(UNKNOWN_TOPIC, "not there")
    return MetadataNews(BROKERS, errors=dict.fromkeys(topics, error))


def _all_at_once(it: Metadata, topics: Iterable[str]) -> list[int]:
    for topic in topics:
        it.seek(topic, NOW)
    return _ask(it)


def _one_after_the_other(it: Metadata, topics: Iterable[str]) -> list[int]:
    asked = []
    for topic in topics:
        it.seek(topic, NOW)
        asked += _ask(it)
    return asked


def _unknown_one_after_the_other(it: Metadata, topics: Iterable[str]) -> list[int]:
    asked = []
    for topic in topics:
        it.seek(topic, NOW)
        asked += _ask(it, known=False)
    return asked


def test_each_new_topic_is_asked_for_once_and_alone() -> None:
    assert _one_after_the_other(settled(), _names(MANY)) == [1] * MANY


def test_new_topics_together_are_asked_for_once() -> None:
    assert _all_at_once(settled(), _names(4_201)) == [2_000, 2_000, 201]


def test_topics_in_backoff_are_not_asked_for_with_each_new_one() -> None:
    assert _unknown_one_after_the_other(settled(), _names(MANY)) == [1] * MANY


@pytest.mark.parametrize(
    "cold_start", [_all_at_once, _one_after_the_other, _unknown_one_after_the_other]
)
def test_the_work_grows_with_the_number_of_topics(
    cold_start: Callable[[Metadata, Iterable[str]], list[int]],
) -> None:
    lines = []
    for count in (FEW, MANY):
        it = settled()
        with counted_lines() as counted:
            cold_start(it, _names(count))
        lines.append(counted.count / count)
    few, many = lines
    assert many <= few * ROUNDING


def test_the_snapshot_is_a_view_and_no_copy() -> None:
    it = settled()
    topics = it.snapshot.topics
    _all_at_once(it, ["new"])
    assert "new" in topics
    assert topics is it.snapshot.topics
