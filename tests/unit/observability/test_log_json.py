"""Log records as JSON."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from aioproducer.observability.log_handler import JsonFormatter


def formatted(message: str = "paid %s", *args: object, **given: Any) -> dict[str, Any]:
    record = logging.LogRecord("shop", logging.WARNING, "f.py", 1, message, args or ("x",), None)
    record.created = 1_700_000_000.25
    vars(record).update(given)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_fields() -> None:
    found = formatted(order=7, customer={"id": 3})
    assert found["timestamp"] == "2023-11-14T22:13:20.250+00:00"
    assert (found["level"], found["logger"], found["message"]) == ("WARNING", "shop", "paid x")
    assert (found["order"], found["customer"]) == (7, {"id": 3})
    assert "exception" not in found


def test_an_extra_field_replaces_none_of_the_record() -> None:
    assert formatted(level="mine", timestamp=1)["level"] == "WARNING"


def test_an_exception() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        found = formatted(exc_info=sys.exc_info(), stack_info="Stack (most recent call last):")
    assert found["exception"].endswith("ValueError: wrong")
    assert found["stack"].startswith("Stack")


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, {(1, 2): 3}, b"\xff"])
def test_a_value_that_json_does_not_have(value: object) -> None:
    assert isinstance(formatted(value=value)["value"], str)


def test_a_cycle() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    assert formatted(value=cycle)["value"] == "[[...]]"


def test_the_other_fields_keep_their_types() -> None:
    found = formatted(value=float("nan"), order=7)
    assert found["order"] == 7
    assert isinstance(found["process"], int)
