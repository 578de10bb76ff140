"""A cluster as lines and as JSON."""

from __future__ import annotations

from aioproducer.admin import BrokerDescription, ClusterDescription
from aioproducer.cli.cluster import fields, lines

FOUND = ClusterDescription(
    "abc",
    2,
    (
        BrokerDescription(1, "one", 9092, "east", {"PRODUCE": (3, 12), "FETCH": (4, 17)}),
        BrokerDescription(2, "two", 9092, None),
    ),
    {"metadata.version": 29, "kraft.version": 1},
)


def test_a_cluster_as_lines() -> None:
    assert list(lines(FOUND)) == [
        "cluster      abc",
        "broker       1 at one:9092, rack east",
        "broker       2 at two:9092",
        "feature      kraft.version 1",
        "feature      metadata.version 29",
        "controller   2",
        "versions     1 FETCH 4-17",
        "versions     1 PRODUCE 3-12",
    ]


def test_a_cluster_as_json() -> None:
    assert fields(FOUND) == {
        "cluster_id": "abc",
        "controller": 2,
        "brokers": [
            {
                "id": 1,
                "host": "one",
                "port": 9092,
                "rack": "east",
                "versions": {"FETCH": [4, 17], "PRODUCE": [3, 12]},
            },
            {"id": 2, "host": "two", "port": 9092, "rack": None},
        ],
        "features": {"kraft.version": 1, "metadata.version": 29},
    }
