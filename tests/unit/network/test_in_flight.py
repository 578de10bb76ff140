from __future__ import annotations

from dataclasses import replace

import pytest

from aioproducer.errors import ProtocolError
from aioproducer.network.apis import Api, response_type
from aioproducer.network.in_flight import InFlightRequest, InFlightRequests


def request(number: int, deadline: float = 10.0) -> InFlightRequest:
    return InFlightRequest(
        correlation_id=number,
        response=response_type(Api.METADATA, 9),
        context=f"context {number}",
        sent=0.0,
        deadline=deadline,
        label="METADATA v9",
    )


def line(*numbers: int) -> InFlightRequests:
    requests = InFlightRequests()
    for number in numbers:
        requests.add(request(number))
    return requests


def test_answers_come_in_the_order_of_the_requests() -> None:
    requests = line(1, 2, 3)
    for number in (1, 2, 3):
        assert requests.complete_next(number).context == f"context {number}"
    assert len(requests) == 0


@pytest.mark.parametrize("number", [2, 3, 0, -1, 99])
def test_an_answer_out_of_order_is_refused_and_takes_nothing(number: int) -> None:
    requests = line(1, 2, 3)
    with pytest.raises(ProtocolError, match=f"correlation id {number}, but 1 was next"):
        requests.complete_next(number)
    assert len(requests) == 3
    assert requests.complete_next(1).correlation_id == 1


def test_an_answer_to_no_request_and_a_second_answer() -> None:
    with pytest.raises(ProtocolError, match=r"correlation id 1.*no request waits"):
        line().complete_next(1)
    requests = line(1)
    requests.complete_next(1)
    with pytest.raises(ProtocolError, match="no request waits"):
        requests.complete_next(1)


def test_a_request_whose_answer_cannot_be_read_is_the_next_again() -> None:
    requests = line(1, 2)
    requests.restore(requests.complete_next(1))
    assert [each.correlation_id for each in requests.clear()] == [1, 2]


def test_requests_without_answer_are_taken_when_they_have_left() -> None:
    requests = line(1)
    for number, deadline in ((2, 5.0), (3, 6.0)):
        requests.add(replace(request(number, deadline), response=None))
    assert len(requests) == 3
    assert requests.next_deadline() == 5.0
    late = requests.overdue(5.0)
    assert late is not None
    assert late.correlation_id == 2
    assert [each.correlation_id for each in requests.take_written()] == [2, 3]
    assert requests.take_written() == []
    assert requests.next_deadline() == 10.0
    requests.add(replace(request(4), response=None))
    assert requests.complete_next(1).correlation_id == 1
    assert requests.next_deadline() == 10.0
    assert [each.correlation_id for each in requests.clear()] == [4]
    assert len(requests) == 0


def test_clear_takes_all_in_order() -> None:
    requests = line(1, 2, 3)
    assert [each.correlation_id for each in requests.clear()] == [1, 2, 3]
    assert len(requests) == 0
    assert requests.clear() == []


@pytest.mark.parametrize(
    ("deadlines", "now", "overdue", "next_deadline"),
    [
        ((), 0.0, None, None),
        ((10.0, 20.0), 9.9, None, 10.0),
        ((10.0, 20.0), 10.0, 1, 10.0),
        ((10.0, 20.0), 25.0, 1, 10.0),
    ],
)
def test_the_first_request_is_the_first_to_time_out(
    deadlines: tuple[float, ...], now: float, overdue: int | None, next_deadline: float | None
) -> None:
    requests = InFlightRequests()
    for number, deadline in enumerate(deadlines, start=1):
        requests.add(request(number, deadline))
    late = requests.overdue(now)
    assert (None if late is None else late.correlation_id) == overdue
    assert requests.next_deadline() == next_deadline
    assert len(requests) == len(deadlines), "looking takes nothing"
