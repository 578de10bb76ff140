"""Requests on behalf of a caller, ListOffsets too: whom they go to, what the caller is told."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from aioproducer.engine.client.requester import NEVER, AdHocRequest, AdHocRequests
from aioproducer.engine.client.requests import (
    EARLIEST,
    LATEST,
    FoundOffset,
    IsolationLevel,
    ListOffsetsRequest,
)
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.network.frames import Completion
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerClosedError,
    ProducerError,
    ProtocolError,
    UnknownServerError,
)
from aioproducer.model import Node, NodeId, Peer, TopicPartition
from tests.support.kio_messages import ours, response_type, sample, theirs

ONE, TWO = (Node(number, f"host{number}", 9092) for number in (1, 2))
LATER = 107.0


@dataclass
class Answer:
    """The future of a caller."""

    value: Any = None
    told: int = 0
    gave_up: bool = False

    def done(self) -> bool:
        return self.gave_up or self.told > 0

    def set_result(self, result: Any, /) -> None:
        assert not self.done()
        self.value, self.told = result, self.told + 1


@dataclass
class Client:
    """Stands in for the NetworkClient."""

    usable: set[NodeId] = field(default_factory=set)
    failed: dict[NodeId, ProducerError] = field(default_factory=dict)
    refused: AuthenticationError | None = None
    asked: list[tuple[NodeId, AdHocRequest]] = field(default_factory=list)
    tried: list[NodeId] = field(default_factory=list)
    later: float | None = LATER

    def failures(self) -> dict[NodeId, ProducerError]:
        return self.failed

    def least_loaded(self, nodes: Iterable[Peer], now: float) -> Peer | None:
        return next((node for node in nodes if node.id in self.usable), None)

    def ready(self, node: Peer, now: float) -> bool:
        self.tried.append(node.id)
        return node.id in self.usable

    def send(self, node: NodeId, inquiry: AdHocRequest, now: float) -> None:
        self.asked.append((node, inquiry))

    def send_to_any(
        self, node: NodeId, inquiry: AdHocRequest, peers: Collection[Peer], now: float
    ) -> None:
        assert inquiry.node is None
        self.send(node, inquiry, now)

    def refusal(self, nodes: Iterable[Peer]) -> AuthenticationError | None:
        return self.refused

    def next_chance(self, nodes: Iterable[Peer], now: float) -> float | None:
        return self.later


class Cluster:
    peers = (ONE, TWO)


@dataclass(frozen=True)
class Ask:
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> Any:
        return f"v{version}"

    def read(self, response: Any) -> Any:
        return f"read {response}"


def world() -> tuple[Client, AdHocRequests, Any]:
    client = Client()
    ad_hoc = AdHocRequests(cast(NetworkClient, client), cast(Metadata, Cluster()), lambda: None)
    return client, ad_hoc, Answer()


def due_after_a_step(ad_hoc: AdHocRequests, now: float) -> float:
    ad_hoc.step(now)
    return ad_hoc.due


def test_any_broker_is_asked_as_soon_as_one_is_ready() -> None:
    client, ad_hoc, answer = world()
    ad_hoc.ask(Ask(), answer, None)
    assert due_after_a_step(ad_hoc, 100.0) == LATER
    client.usable.add(2)
    assert due_after_a_step(ad_hoc, 101.0) == NEVER
    ((node, inquiry),) = client.asked
    assert node == 2
    assert inquiry.api is Api.METADATA
    assert str(inquiry.build(9)) == "v9"
    assert inquiry.read("it") == "read it"
    ad_hoc.completed(Completion(inquiry, node, "said", None, 0.1), 0.0)
    assert answer.value == "said"
    assert due_after_a_step(ad_hoc, 102.0) == NEVER


def test_a_broker_that_fails_for_the_first_time_is_an_answer() -> None:
    client, ad_hoc, answer = world()
    before = client.failed[1] = BrokerConnectionError("of yesterday")
    ad_hoc.ask(Ask(), answer, ONE)
    ad_hoc.step(100.0)
    assert not answer.done(), "it is tried again first"
    client.failed[1] = BrokerConnectionError("of today")
    ad_hoc.step(101.0)
    assert answer.value is client.failed[1] is not before


def test_a_refused_login_is_an_answer_of_all_of_them() -> None:
    client, ad_hoc, answer = world()
    ad_hoc.ask(Ask(), answer, None)
    ad_hoc.step(100.0)
    client.refused = AuthenticationError("wrong password")
    ad_hoc.step(101.0)
    assert answer.value is client.refused


def test_a_connection_that_is_lost_is_no_answer_where_another_broker_may_have_one() -> None:
    client, ad_hoc, answer = world()
    client.usable.add(1)
    ad_hoc.ask(Ask(), answer, None)
    ad_hoc.step(100.0)
    ((_, inquiry),) = client.asked
    ad_hoc.completed(Completion(inquiry, 1, None, BrokerConnectionError("cut"), 0.1), 0.0)
    assert not answer.done()
    ad_hoc.step(101.0)
    assert len(client.asked) == 2
    error = UnknownServerError("it failed")
    ad_hoc.completed(Completion(inquiry, 1, None, error, 0.1), 0.0)
    assert answer.value is error


def test_of_a_named_broker_it_is_one() -> None:
    client, ad_hoc, answer = world()
    client.usable.add(1)
    ad_hoc.ask(Ask(), answer, ONE)
    ad_hoc.step(100.0)
    ((_, inquiry),) = client.asked
    lost = BrokerConnectionError("cut")
    ad_hoc.completed(Completion(inquiry, 1, None, lost, 0.1), 0.0)
    assert answer.value is lost


def test_who_gave_up_is_not_asked_for_and_not_told() -> None:
    client, ad_hoc, answer = world()
    ad_hoc.ask(Ask(), answer, None)
    answer.gave_up = True
    client.usable.add(1)
    assert due_after_a_step(ad_hoc, 100.0) == NEVER
    assert client.asked == []


def test_all_are_told_of_the_end() -> None:
    _, ad_hoc, answer = world()
    ad_hoc.ask(Ask(), answer, None)
    closed = ProducerClosedError("closed")
    ad_hoc.close(closed)
    assert answer.value is closed
    assert due_after_a_step(ad_hoc, 100.0) == NEVER


def test_without_a_moment_to_wait_for_it_waits_to_be_woken() -> None:
    client, ad_hoc, answer = world()
    client.later = None
    ad_hoc.ask(Ask(), answer, None)
    assert due_after_a_step(ad_hoc, 100.0) == NEVER
    client.usable.add(1)
    ad_hoc.step(101.0)
    assert len(client.asked) == 1


# --- responses that are read in steps -----------------------------------------------------------


def steps(count: int, end: Any = "read") -> Generator[None, None, Any]:
    """``count`` steps, and then a value or an error."""
    for _ in range(count):
        yield
    if isinstance(end, Exception):
        raise end
    return end


def answered_in_steps(
    node: Node | None, count: int, end: Any = "read"
) -> tuple[Client, AdHocRequests, Answer]:
    client, ad_hoc, answer = world()
    client.usable = {1}
    ad_hoc.ask(Ask(), answer, node)
    ad_hoc.step(100.0)
    [(_, inquiry)] = client.asked
    ad_hoc.completed(Completion(inquiry, 1, steps(count, end), None, 0.01), 101.0)
    return client, ad_hoc, answer


def test_a_small_response_is_read_at_once() -> None:
    _, ad_hoc, answer = answered_in_steps(None, 10)
    assert answer.value == "read"
    assert due_after_a_step(ad_hoc, 101.0) == NEVER


def test_a_large_response_is_read_in_several_rounds() -> None:
    _, ad_hoc, answer = answered_in_steps(None, 1_000)
    rounds = 0
    while not answer.told:
        assert ad_hoc.due == 0.0
        ad_hoc.step(101.0)
        rounds += 1
    assert 3 <= rounds <= 10
    assert answer.value == "read"


def test_another_broker_is_asked_if_a_part_of_a_response_can_t_be_read() -> None:
    client, ad_hoc, answer = answered_in_steps(None, 1_000, ProtocolError("damaged"))
    client.usable = {2}
    while len(client.asked) == 1:
        assert ad_hoc.due == 0.0
        ad_hoc.step(101.0)
    assert client.asked[1][0] == 2
    assert not answer.told


def test_the_caller_gets_the_error_if_only_one_broker_can_be_asked() -> None:
    _, ad_hoc, answer = answered_in_steps(ONE, 10, ProtocolError("damaged"))
    assert isinstance(answer.value, ProtocolError)
    assert due_after_a_step(ad_hoc, 101.0) == NEVER


def test_a_response_that_nobody_waits_for_is_read_no_further() -> None:
    _, ad_hoc, answer = answered_in_steps(None, 1_000)
    answer.gave_up = True
    ad_hoc.step(101.0)
    assert due_after_a_step(ad_hoc, 101.0) == NEVER


def test_the_end_fails_a_caller_whose_response_is_being_read() -> None:
    _, ad_hoc, answer = answered_in_steps(None, 1_000)
    ad_hoc.close(ProducerClosedError("closed"))
    assert isinstance(answer.value, ProducerClosedError)
    assert due_after_a_step(ad_hoc, 101.0) == NEVER


LOW, HIGH = SUPPORTED[Api.LIST_OFFSETS]
VERSIONS = range(LOW, HIGH + 1)
FIRST, SECOND, OTHER = (
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("bills", 0),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_asked_for_by_topic(version: int) -> None:
    made = ListOffsetsRequest(
        {FIRST: EARLIEST, OTHER: 17, SECOND: LATEST}, IsolationLevel.READ_COMMITTED
    )
    request = theirs(made.build(version))
    assert (request.replica_id, request.isolation_level) == (-1, 1)
    asked = {
        (topic.name, each.partition_index): each.timestamp
        for topic in request.topics
        for each in topic.partitions
    }
    assert asked == {("orders", 1): -2, ("orders", 2): -1, ("bills", 0): 17}
    assert len(request.topics) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_the_offset_of_each_partition_is_read(version: int) -> None:
    response = ours(sample(response_type(Api.LIST_OFFSETS, version)))
    epoch = 1 if version >= 4 else -1
    assert ListOffsetsRequest({FIRST: LATEST}).read(response) == {
        FIRST: FoundOffset(0, 5, 5, epoch)
    }


def test_a_partition_without_an_offset_is_a_protocol_error() -> None:
    response = ours(sample(response_type(Api.LIST_OFFSETS, HIGH)))
    with pytest.raises(ProtocolError, match="orders-2"):
        ListOffsetsRequest({FIRST: LATEST, SECOND: LATEST}).read(response)
