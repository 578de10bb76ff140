"""A check against a cluster that is made of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from aioproducer.engine.client.requests import (
    ClusterDescription,
    DescribeRequest,
    GroupPermission,
    PartitionDescription,
    TopicDescription,
    TransactionalIdPermission,
)
from aioproducer.engine.core.queries import ClusterQueries, TopicCheck, check
from aioproducer.engine.transactions.requests import Response
from aioproducer.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerConnectionError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.model import Node, Peer

ONE, TWO = (Node(number, f"host{number}", 9092) for number in (1, 2))


def described(*leaders: int | None, error: int = 0, writes: bool | None = True) -> TopicDescription:
    partitions = (
        PartitionDescription(number, leader, 0, (), ()) for number, leader in enumerate(leaders)
    )
    return TopicDescription("orders", None, False, error, tuple(partitions), writes)


GOOD = described(2, 2, 2)
NOT_AVAILABLE, ID_REFUSED, GROUP_REFUSED = 15, 53, 30
LONG, SHORT = 30.0, 0.05


class Cluster(ClusterQueries):
    """Answers a check; ``nodes`` are those that it was led to."""

    def __init__(self, **topics: TopicDescription) -> None:
        self.error_code = 0
        self.topics: dict[str, TopicDescription] = topics
        self.coordinators: list[Any] = []
        self.unreachable: dict[Peer, BaseException | None] = {}
        self.permissions: dict[type, int] = {}
        """The error codes for questions about permissions."""
        self.nodes: list[Peer] = []
        self.asked: list[Any] = []

    async def request(self, request: Any, node: Peer | None = None) -> Any:
        if node is not None:
            self.nodes.append(node)
            if node in self.unreachable:
                error = self.unreachable[node]
                if error is None:
                    await asyncio.get_running_loop().create_future()
                else:
                    raise error
            return self.permissions.get(type(request))
        self.asked.append(request)
        if isinstance(request, DescribeRequest):
            named = {name: self.topics[name] for name in request.topics or ()}
            brokers = {node.id: node for node in (ONE, TWO)}
            return ClusterDescription(self.error_code, "cluster", 1, brokers, named)
        return self.coordinators.pop(0)

    def why_no_answer(self) -> str:
        return "host2: no response yet"

    @property
    def features(self) -> Mapping[str, int]:
        return {"metadata.version": 25}

    @property
    def versions(self) -> Mapping[str, tuple[int, int]]:
        return {"PRODUCE": (3, 13)}


async def test_all_that_was_found() -> None:
    cluster = Cluster(orders=GOOD, old=described(1, writes=None))
    cluster.coordinators = [Response(0, node=ONE)]
    found = await check(cluster, ["orders", "old", "orders"], "payments", LONG)
    assert (found.cluster_id, found.brokers) == ("cluster", (ONE, TWO))
    assert found.topics == {"orders": TopicCheck(3, True), "old": TopicCheck(1, None)}
    assert found.features == {"metadata.version": 25}
    assert found.versions == {"PRODUCE": (3, 13)}
    assert found.coordinator == ONE
    assert cluster.asked[0].topics == ("orders", "old")
    assert cluster.nodes == [ONE, TWO, ONE], "the leaders that there are, and the coordinator"


async def test_a_coordinator_that_comes_soon_is_waited_for() -> None:
    cluster = Cluster()
    cluster.coordinators = [Response(NOT_AVAILABLE), Response(0, node=TWO)]
    assert (await check(cluster, [], "payments", LONG)).coordinator == TWO


@pytest.mark.parametrize(
    ("topic", "kind", "told"),
    [
        (described(error=3), UnknownTopicOrPartitionError, "'orders'"),
        (described(error=29), TopicAuthorizationFailedError, "'orders'"),
        (described(1, writes=False), TopicAuthorizationFailedError, "WRITE"),
    ],
)
async def test_a_topic_that_cannot_be_written_to(
    topic: TopicDescription, kind: type[KafkaError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        await check(Cluster(orders=topic), ["orders"], None, LONG)


@pytest.mark.parametrize(
    ("passes", "kind"),
    [
        (described(1, None), LeaderNotAvailableError),
        (described(1, 7), LeaderNotAvailableError),
        (described(error=5), LeaderNotAvailableError),
    ],
)
async def test_a_leader_that_comes_soon_is_waited_for(
    passes: TopicDescription, kind: type[KafkaError]
) -> None:
    cluster = Cluster(orders=passes)
    with pytest.raises(kind, match="'orders'"):
        await check(cluster, ["orders"], None, SHORT)
    checking = asyncio.create_task(check(cluster, ["orders"], None, LONG))
    await asyncio.sleep(0)
    cluster.topics["orders"] = GOOD
    assert (await checking).topics["orders"].partitions == 3


@pytest.mark.parametrize("topics", ["orders", [b"orders"], ["no topic"]])
async def test_names_that_are_none(topics: Any) -> None:
    with pytest.raises(InvalidTopicError):
        await check(Cluster(), topics, None, LONG)


async def test_a_refused_transactional_id_is_final() -> None:
    cluster = Cluster()
    cluster.coordinators = [Response(ID_REFUSED)]
    with pytest.raises(KafkaError, match="'payments'") as caught:
        await check(cluster, [], "payments", LONG)
    assert caught.value.code == ID_REFUSED


@pytest.mark.parametrize("hidden", [False, True])
async def test_all_missing_permissions_are_in_one_error(hidden: bool) -> None:
    topic = described(error=29) if hidden else described(1, writes=False)._replace(may_read=False)
    cluster = Cluster(orders=topic, payments=topic, open=described(1))
    cluster.coordinators = [Response(ID_REFUSED), Response(GROUP_REFUSED)]
    if not hidden:
        cluster.coordinators = [Response(0, node=ONE), Response(0, node=TWO)]
        cluster.permissions = {
            TransactionalIdPermission: ID_REFUSED,
            GroupPermission: GROUP_REFUSED,
        }
    with pytest.raises(TopicAuthorizationFailedError) as caught:
        await check(cluster, ["orders", "open"], "id", LONG, "readers", ["payments", "open"])
    found = [
        each.partition(": the principal needs the ")[::2] for each in str(caught.value).split("; ")
    ]
    also = "DESCRIBE and " if hidden else ""
    several = "s" if hidden else ""
    assert found == [
        (
            f"topic {name!r}: TOPIC_AUTHORIZATION_FAILED",
            f"{also}{operation} permission{several} for the topic",
        )
        for name, operation in (("orders", "WRITE"), ("payments", "READ"))
    ] + [
        (
            "transactional id 'id': TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            f"{also}WRITE permission{several} for the transactional id",
        ),
        (
            "group 'readers': GROUP_AUTHORIZATION_FAILED",
            f"{also}READ permission{several} for the group",
        ),
    ]


async def test_other_errors_come_after_the_permissions() -> None:
    cluster = Cluster()
    cluster.coordinators = [Response(0, node=ONE), Response(0, node=TWO)]
    cluster.permissions = {TransactionalIdPermission: 49, GroupPermission: 16}
    assert (await check(cluster, [], "id", LONG, "readers")).coordinator == ONE
    assert cluster.nodes == [ONE, TWO]


async def test_a_cluster_that_refuses_to_describe_itself() -> None:
    cluster = Cluster()
    cluster.error_code = 31
    with pytest.raises(KafkaError) as caught:
        await check(cluster, [], None, LONG)
    assert caught.value.code == 31


@pytest.mark.parametrize("error", [AuthenticationError("no"), BrokerConnectionError("cut")])
async def test_what_a_leader_says_is_raised(error: Exception) -> None:
    cluster = Cluster(orders=GOOD)
    cluster.unreachable[TWO] = error
    with pytest.raises(type(error)) as caught:
        await check(cluster, ["orders"], None, LONG)
    assert caught.value is error


async def test_the_time_is_over_before_a_leader_was_reached() -> None:
    cluster = Cluster(orders=GOOD)
    cluster.unreachable[TWO] = None
    with pytest.raises(BootstrapError, match=r"broker 2 .* within 0.05 s.* host2: no response yet"):
        await check(cluster, ["orders"], None, SHORT)
