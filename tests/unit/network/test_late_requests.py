"""Requests that are late because their bytes, or those of the response, still pass."""

from __future__ import annotations

import struct
import sys
from types import SimpleNamespace

import pytest

from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.frames import InFlightRequest, InFlightRequests, request_form
from aioproducer.engine.network.timeouts import ConnectionTimeouts
from aioproducer.engine.protocol import Api
from aioproducer.errors import RequestTimeoutError
from aioproducer.foundation.runtime.running_clock import RunningClock
from aioproducer.model import Node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")

NODE = Node(1, "host1", 9092)
TIMEOUT = 8.0
SENT = 100.0
LATE = SENT + TIMEOUT
GIVEN_UP = None


def no_call(*_: object) -> None:
    raise AssertionError


class Path:
    """A socket whose bytes pass as the test says."""

    def __init__(self) -> None:
        self.acked = self.received = 0
        self.unacked_segments = self.not_sent = 0
        self.silent_ms = self.round_trip_ms = 0
        clock = RunningClock(lambda: SENT)
        self.in_flight = InFlightRequests()
        self.timeouts = ConnectionTimeouts(NODE, TIMEOUT, 540.0, clock)
        self.exchange = Exchange(1, "c", clock, self.in_flight, SENT, no_call, no_call, no_call)
        self.timeouts.opened(self.exchange, self)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        info = bytearray(size)
        struct.pack_into("=I", info, 24, self.unacked_segments)
        struct.pack_into("=II", info, 52, self.silent_ms, self.silent_ms + 1)
        struct.pack_into("=I", info, 68, 1_000 * self.round_trip_ms)
        struct.pack_into("=QQ", info, 120, self.acked, self.received)
        struct.pack_into("=I", info, 144, self.not_sent)
        return bytes(info)

    def look(self, now: float, *, receives: bool = False) -> float | None:
        return self.timeouts.look_at_bytes(SENT, now, receives=receives)


@pytest.fixture
async def path() -> Path:
    return Path()


def test_a_request_ends_if_the_broker_has_all_of_it(path: Path) -> None:
    assert path.look(LATE) is GIVEN_UP


def test_a_request_ends_if_nothing_comes_any_more(path: Path) -> None:
    """Such as from a host that was switched off: no acknowledgement of what it was sent."""
    path.unacked_segments = 3
    path.silent_ms = 1_000
    assert path.look(LATE) is GIVEN_UP


def test_a_request_ends_if_no_byte_passes_between_two_looks(path: Path) -> None:
    """Such as to a broker that stopped reading, whose system still answers."""
    path.not_sent = 5_000
    assert path.look(LATE) == LATE + 1
    assert path.look(LATE + 1) is GIVEN_UP


@pytest.mark.parametrize("way", ["out", "back"])
def test_a_request_has_time_until_no_byte_has_passed_for_the_time_of_a_request(
    path: Path, way: str
) -> None:
    receives = way == "back"
    path.unacked_segments = int(not receives)
    now = LATE
    for _ in range(10):
        assert path.look(now, receives=receives) == now + 1
        if receives:
            path.received += 1
        else:
            path.acked += 1
        now += 1
    path.unacked_segments = 0
    assert path.look(now) == now + 1, "bytes have passed before now"
    for later in range(1, 8):
        assert path.look(now + later) == now + later + 1
    assert path.look(now + TIMEOUT) is GIVEN_UP


def test_a_request_ends_after_four_times_its_time_whatever_passes(path: Path) -> None:
    path.not_sent = 1
    now = LATE
    while (again := path.look(now)) is not None:
        path.acked += 1
        now = again
    assert now == SENT + 4 * TIMEOUT


def test_looks_are_two_round_trips_apart_at_least(path: Path) -> None:
    """Bytes pass once in a round trip if the other side has little room for them."""
    path.round_trip_ms = 1_500
    path.not_sent = 1
    path.silent_ms = 1_400
    assert path.look(LATE) == LATE + 3
    path.acked = 1
    assert path.look(LATE + 3) == LATE + 6
    assert path.look(LATE + 6) == LATE + 9
    assert path.look(LATE + 3 + TIMEOUT) is GIVEN_UP


def test_looks_for_other_connections_do_not_count(path: Path) -> None:
    path.not_sent = 1
    assert path.look(LATE) == LATE + 1
    assert path.look(LATE + 0.5) == LATE + 1
    path.acked = 1
    assert path.look(LATE + 1) == LATE + 2


def test_what_passed_before_a_request_was_late_does_not_count(path: Path) -> None:
    path.not_sent = 1
    assert path.look(LATE) == LATE + 1
    path.acked = 1
    assert path.look(LATE + 1) == LATE + 2
    path.acked = 2  # the response came, and another request is late after some time
    assert path.look(LATE + 30 - TIMEOUT) == LATE + 31 - TIMEOUT
    assert path.look(LATE + 31 - TIMEOUT) is GIVEN_UP


def test_a_request_behind_one_whose_bytes_passed_has_its_time_from_then(path: Path) -> None:
    timeouts = path.timeouts
    assert timeouts.look_behind(LATE) is GIVEN_UP, "none was late"
    path.not_sent = 1
    path.look(LATE)
    assert timeouts.look_behind(LATE + 1) == LATE + TIMEOUT
    assert timeouts.look_behind(LATE + TIMEOUT) is GIVEN_UP


@pytest.mark.parametrize("api", [*Api])
@pytest.mark.parametrize("is_awaited", [True, False])
def test_only_records_that_somebody_waits_for_get_more_time(
    path: Path, api: Api, is_awaited: bool
) -> None:
    """Another broker can answer the other requests, or their caller asks again."""
    path.not_sent = 1
    asked = SimpleNamespace(is_awaited=is_awaited)
    late = InFlightRequest(asked, 1, 1, request_form(api, 0, "c"), SENT)
    with_records = is_awaited and api in (Api.PRODUCE, Api.FETCH)
    expected = LATE + 1 if with_records else GIVEN_UP
    assert path.timeouts.passes_until(late, LATE) == expected


def test_nobody_knows_what_passes_without_such_a_socket() -> None:
    timeouts = ConnectionTimeouts(NODE, TIMEOUT, 540.0, RunningClock(lambda: SENT))
    assert timeouts.look_at_bytes(SENT, LATE, receives=True) is GIVEN_UP


@pytest.mark.parametrize(
    ("sent", "now", "end"),
    [
        ((), SENT, SENT + 540.0),
        ((0.0, 10.0), LATE - 0.1, LATE),
        ((0.0, 10.0), LATE, "within 8 s"),
        ((0.0, 10.0), LATE + 15.0, "within 23 s"),
    ],
)
def test_the_first_request_is_the_first_to_time_out(
    path: Path, sent: tuple[float, ...], now: float, end: float | str
) -> None:
    form = request_form(Api.METADATA, 9, "c")
    for number, after in enumerate(sent):
        path.in_flight.append(InFlightRequest("request", 1, number, form, SENT + after))
    found = path.timeouts.look(now)
    if isinstance(end, str):
        assert isinstance(found, RequestTimeoutError)
        assert end in str(found)
    else:
        assert found == end
    assert len(path.in_flight) == len(sent), "looking takes nothing"
