"""The handshake of a connection, and the versions that both sides know."""

from __future__ import annotations

from typing import Any

import pytest
from kio.index import load_request_schema

from aioproducer.engine.network.versions import (
    CHECKED,
    NO_FEATURES,
    ApiVersionsHandshake,
    BrokerVersions,
    Features,
    HangUps,
)
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.errors.broker import ErrorCode
from tests.support.kio_messages import encode, judged, milliseconds, response_module, response_type

NUMBER = b"\0\0\0\1"
UNSUPPORTED = b"\0\x23"
MALFORMED = NUMBER + UNSUPPORTED + bytes.fromhex("01 0012 0000 0002 00000000")
"""What librdkafka's mock cluster answers to versions above 2."""


def asked(handshake: ApiVersionsHandshake) -> int:
    version = handshake.next_version
    assert version is not None
    assert 0 <= version <= 4
    return version


def answer(
    version: int,
    ranges: list[tuple[int, int, int]],
    code: int = 0,
    features: tuple[int, dict[str, int]] | None = None,
) -> bytes:
    parts: Any = response_module(Api.API_VERSIONS, version)
    late: dict[str, Any] = {} if version < 1 else {"throttle_time": milliseconds(0)}
    if features is not None:
        late["finalized_features_epoch"] = features[0]
        late["finalized_features"] = tuple(
            parts.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=1)
            for name, level in features[1].items()
        )
    ranges_said = tuple(
        parts.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, low, high in ranges
    )
    said = parts.ApiVersionsResponse(error_code=ErrorCode(code), api_keys=ranges_said, **late)
    return NUMBER + encode(said)


def receive(handshake: ApiVersionsHandshake, body: bytes) -> None:
    handshake.receive(asked(handshake), body)


def test_a_broker_of_today_is_asked_once() -> None:
    handshake = ApiVersionsHandshake()
    assert asked(handshake) == 4
    receive(handshake, answer(4, [(0, 3, 13), (3, 0, 13), (18, 0, 4)]))
    assert handshake.next_version is None
    assert handshake.versions[Api.PRODUCE] == 13


@pytest.mark.parametrize(
    ("highest", "then"),
    [(3, 3), (2, 2), (1, 1), (0, 0), (4, 3), (9, 3), (-1, 0), (-32768, 0)],
)
def test_a_broker_that_names_what_it_knows_is_asked_in_that_version(
    highest: int, then: int
) -> None:
    handshake = ApiVersionsHandshake()
    receive(handshake, answer(0, [(18, 0, highest)], code=35))
    assert asked(handshake) == then
    receive(handshake, answer(then, [(0, 0, 9), (18, 0, highest)]))
    assert handshake.next_version is None
    assert handshake.versions[Api.PRODUCE] == 9


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(MALFORMED, id="librdkafka's mock cluster"),
        pytest.param(NUMBER + UNSUPPORTED, id="the error alone"),
        pytest.param(NUMBER + UNSUPPORTED + bytes(4), id="no versions"),
        pytest.param(NUMBER + UNSUPPORTED + b"\xff" * 9, id="garbage"),
        pytest.param(answer(0, [(0, 0, 9)], code=35), id="without ApiVersions itself"),
    ],
)
def test_any_other_refusal_falls_back_to_version_0(body: bytes) -> None:
    handshake = ApiVersionsHandshake()
    receive(handshake, body)
    assert asked(handshake) == 0
    receive(handshake, answer(0, [(0, 0, 9)]))
    assert handshake.next_version is None
    assert handshake.versions[Api.PRODUCE] == 9


def test_a_broker_that_refuses_everything_is_not_asked_for_ever() -> None:
    handshake = ApiVersionsHandshake()
    refusal = answer(0, [(18, 5, 9)], code=35)
    for version in (4, 3, 2, 1):
        assert asked(handshake) == version
        receive(handshake, refusal)
    with pytest.raises(ProtocolError, match="UNSUPPORTED_VERSION"):
        receive(handshake, refusal)
    assert handshake.next_version is None


@pytest.mark.parametrize(("code", "name"), [(-1, "UNKNOWN_SERVER_ERROR"), (42, "INVALID_REQUEST")])
def test_another_error_ends_it(code: int, name: str) -> None:
    handshake = ApiVersionsHandshake()
    with pytest.raises(ProtocolError, match=name):
        receive(handshake, answer(4, [], code=code))
    assert handshake.next_version is None


@pytest.mark.parametrize("version", range(5))
def test_an_error_that_nobody_knows_ends_it_with_its_number(version: int) -> None:
    body = answer(version, [], code=42).replace(b"\0\x2a", (9999).to_bytes(2, "big"))
    with pytest.raises(ProtocolError, match="ERROR_9999"):
        ApiVersionsHandshake().receive(version, body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(NUMBER, id="nothing"),
        pytest.param(NUMBER + b"\0", id="half an error code"),
        pytest.param(NUMBER + b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP"),
        pytest.param(answer(4, [(0, 0, 9)])[:-1], id="truncated"),
        pytest.param(answer(0, [(0, 0, 9)]), id="another version"),
        pytest.param(NUMBER + b"\x7f\xff" + bytes(9), id="an unknown error code"),
    ],
)
def test_anything_else_is_no_kafka(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        receive(ApiVersionsHandshake(), body)


def test_bytes_left_over_do_no_harm() -> None:
    handshake = ApiVersionsHandshake()
    receive(handshake, answer(4, [(0, 0, 9)]) + b"\0")
    assert handshake.versions[Api.PRODUCE] == 9


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("api", [0, 3, 22, 26])
def test_versions_that_run_backwards_are_no_versions(version: int, api: int) -> None:
    with pytest.raises(ProtocolError, match="versions 68 to 1"):
        ApiVersionsHandshake().receive(version, answer(version, [(api, 68, 1)]))


def test_versions_of_what_nobody_asks_for_do_not_matter() -> None:
    handshake = ApiVersionsHandshake()
    receive(handshake, answer(4, [(0, 0, 9), (77, 68, 1), (18, 5, 4)]))
    assert handshake.versions[Api.PRODUCE] == 9


@pytest.mark.parametrize("version", range(5))
def test_null_where_the_versions_belong_is_a_protocol_error(version: int) -> None:
    null = b"\0" if version >= 3 else b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError):
        ApiVersionsHandshake().receive(version, NUMBER + b"\0\0" + null + bytes(5))


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("levels", [{"metadata.version": 25, "transaction.version": 2}, {}])
def test_what_the_cluster_has_agreed_on(version: int, levels: dict[str, int]) -> None:
    handshake = ApiVersionsHandshake()
    handshake.next_version = version
    receive(handshake, answer(version, [(0, 3, 13)], features=(41, levels)))
    assert handshake.versions.features == Features(41, levels)


@pytest.mark.parametrize("version", range(5))
def test_a_broker_that_does_not_tell_has_no_features(version: int) -> None:
    handshake = ApiVersionsHandshake()
    handshake.next_version = version
    receive(handshake, answer(version, [(0, 3, 13)]))
    assert handshake.versions.features == NO_FEATURES


# --- peers that hang up --------------------------------------------------------------------------

HERE, THERE = ("here", 9092), ("there", 9092)


def test_the_versions_after_a_hang_up() -> None:
    hang_ups = HangUps()
    asked = CHECKED
    order = []
    while hang_ups.hung_up(HERE, asked, 100.0):
        order.append(asked)
        asked = hang_ups.highest(HERE, 100.0)
    assert [*order, asked] == [5, 4, 3, 0]
    assert hang_ups.highest(HERE, 100.0) == CHECKED, "from the beginning"
    assert not hang_ups.hung_up(HERE, 5, 101.0), "but not at once"
    assert hang_ups.highest(HERE, 101.0) == 4
    assert hang_ups.highest(THERE, 101.0) == CHECKED, "each address by itself"


def test_a_version_is_remembered_for_some_minutes() -> None:
    """Then the peer may be a newer one."""
    hang_ups = HangUps()
    hang_ups.hung_up(HERE, 4, 100.0)
    hang_ups.answered(HERE, 4)
    assert hang_ups.highest(HERE, 699.0) == 3
    hang_ups.answered(HERE, 4)
    assert hang_ups.highest(HERE, 700.0) == CHECKED
    assert hang_ups.hung_up(HERE, 4, 700.0)


def test_a_peer_that_has_answered_is_asked_with_a_lower_version_at_once() -> None:
    hang_ups = HangUps()
    hang_ups.hung_up(HERE, 0, 100.0)
    hang_ups.answered(HERE, 4)
    assert hang_ups.hung_up(HERE, 4, 101.0)


def test_a_peer_that_knows_the_newest_version_is_asked_with_it_again() -> None:
    """A connection may also end by accident while the versions are asked for."""
    hang_ups = HangUps()
    hang_ups.hung_up(HERE, CHECKED, 100.0)
    hang_ups.answered(HERE, CHECKED)
    assert hang_ups.highest(HERE, 100.0) == CHECKED


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
"""Judged by Kafka's own classes alone: tests/kafka/test_kafkas_own_classes.py."""


@pytest.mark.parametrize("api", Api)
def test_every_supported_version_but_the_newest_is_one_that_kio_has(api: Api) -> None:
    lowest, highest = SUPPORTED[api]
    newest = NEWER_THAN_KIO.get(api, ())
    assert [*judged(api), *newest] == [*range(lowest, highest + 1)]
    for version in judged(api):
        for kind in (load_request_schema(api, version), response_type(api, version)):
            assert (int(kind.__api_key__), int(kind.__version__)) == (int(api), version)
