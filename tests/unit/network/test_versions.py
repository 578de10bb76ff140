from __future__ import annotations

import pytest
from kio.index import load_request_schema

from aioproducer.engine.network.versions import BrokerVersions
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import UnsupportedVersionError
from tests.support.kio_messages import judged, response_type


@pytest.mark.parametrize(
    ("theirs", "chosen"),
    [
        ((0, 13), 13),
        ((0, 100), 13),
        ((13, 20), 13),
        ((3, 7), 7),
        ((7, 7), 7),
        ((0, 10), 10),
        ((9, 9), 9),
    ],
)
def test_the_highest_version_that_both_speak(theirs: tuple[int, int], chosen: int) -> None:
    assert SUPPORTED[Api.PRODUCE] == (7, 13)
    assert BrokerVersions([(0, *theirs)])[Api.PRODUCE] == chosen


@pytest.mark.parametrize("theirs", [(0, 6), (14, 20), (0, 0), (-1, -1), (9, 8), (20, 7)])
def test_no_version_in_common(theirs: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions([(0, *theirs)])[Api.PRODUCE]
    for part in ("PRODUCE", f"{theirs[0]} to {theirs[1]}", "7 to 13"):
        assert part in str(caught.value)


def test_a_request_that_the_broker_does_not_know() -> None:
    versions = BrokerVersions([(3, 0, 13)])
    with pytest.raises(UnsupportedVersionError, match="does not support PRODUCE"):
        versions[Api.PRODUCE]
    assert versions.highest(Api.PRODUCE) is None
    assert versions.highest(Api.METADATA) == 13
    assert versions.by_name == {"METADATA": (0, 13)}
    with pytest.raises(UnsupportedVersionError):
        BrokerVersions(())[Api.METADATA]


NEWER_THAN_KIO = {Api.API_VERSIONS: [5], Api.DELETE_GROUPS: [3], Api.TXN_OFFSET_COMMIT: [6]}
"""Judged by Kafka's own classes alone: tests/kafka/test_messages_of_kafka.py."""


@pytest.mark.parametrize("api", Api)
def test_every_supported_version_but_the_newest_is_one_that_kio_has(api: Api) -> None:
    lowest, highest = SUPPORTED[api]
    newest = NEWER_THAN_KIO.get(api, ())
    assert [*judged(api), *newest] == [*range(lowest, highest + 1)]
    for version in judged(api):
        for kind in (load_request_schema(api, version), response_type(api, version)):
            assert (int(kind.__api_key__), int(kind.__version__)) == (int(api), version)
