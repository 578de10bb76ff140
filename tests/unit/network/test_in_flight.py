from __future__ import annotations

import pytest

from aioproducer.engine.network.frames import InFlightRequest, InFlightRequests, request_form
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProtocolError

METADATA = request_form(Api.METADATA, 9, "c")


def request(number: int, *, answered: bool = True) -> InFlightRequest:
    return InFlightRequest(f"request {number}", 1, number, METADATA, 0.0, answered=answered)


def line(*numbers: int) -> InFlightRequests:
    return InFlightRequests(map(request, numbers))


def numbers(requests: list[InFlightRequest] | InFlightRequests) -> list[int]:
    return [each.correlation_id for each in requests]


def test_answers_come_in_the_order_of_the_requests() -> None:
    requests = line(1, 2, 3)
    for number in (1, 2, 3):
        assert requests.take(number).request == f"request {number}"
    assert len(requests) == 0


@pytest.mark.parametrize("number", [2, 3, 0, -1, 99])
def test_an_answer_out_of_order_is_refused_and_takes_nothing(number: int) -> None:
    requests = line(1, 2, 3)
    with pytest.raises(ProtocolError, match=f"correlation id {number}, but 1 was next"):
        requests.take(number)
    assert numbers(requests) == [1, 2, 3]


def test_an_answer_to_no_request_and_a_second_answer() -> None:
    with pytest.raises(ProtocolError, match=r"correlation id 1.*no request waits"):
        line().take(1)
    requests = line(1)
    requests.take(1)
    with pytest.raises(ProtocolError, match="no request waits"):
        requests.take(1)


def test_requests_without_answer_are_taken_when_they_have_left() -> None:
    requests = line(1)
    requests.extend([request(2, answered=False), request(3, answered=False)])
    requests.append(request(4))
    assert numbers(requests.take_written()) == [2, 3]
    assert requests.take_written() == []
    assert numbers(requests) == [1, 4], "the others stay in their order"


def test_a_request_without_answer_is_not_answered() -> None:
    requests = InFlightRequests([request(1, answered=False)])
    with pytest.raises(ProtocolError, match="no request waits"):
        requests.take(1)
    requests.append(request(2))
    with pytest.raises(ProtocolError, match="correlation id 1, but 2 was next"):
        requests.take(1)
    assert requests.take(2).correlation_id == 2
    assert numbers(requests) == [1], "it may not be written yet"


def test_all_are_taken_in_order() -> None:
    requests = line(1, 2, 3)
    assert numbers(requests.take_all()) == [1, 2, 3]
    assert len(requests) == 0
    assert requests.take_all() == []
