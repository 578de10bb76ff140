from __future__ import annotations

import copy
import json
import logging
import pickle

import pytest

from aioproducer.config import Secret

SECRET = Secret("hunter2")


def test_no_way_of_showing_it_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("%s %r", SECRET, SECRET)
    shown = [
        repr(SECRET),
        str(SECRET),
        f"{SECRET}",
        f"{SECRET!r:>40}",
        f"{SECRET:>40}",
        caplog.text,
    ]
    assert "hunter2" not in repr(([SECRET], {"a": SECRET}, shown))
    assert str(Secret("")) == str(SECRET)


def test_it_is_not_a_str() -> None:
    with pytest.raises(TypeError):
        json.dumps(SECRET)
    with pytest.raises(TypeError):
        "".join([SECRET])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        "a" + SECRET  # type: ignore[operator]


def test_value() -> None:
    assert SECRET.reveal() == "hunter2"
    assert Secret("hunter2") == SECRET
    assert Secret("other") != SECRET
    assert SECRET != "hunter2"
    assert len({SECRET, Secret("hunter2")}) == 1
    assert pickle.loads(pickle.dumps(SECRET)) == copy.deepcopy(SECRET) == SECRET


def test_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        SECRET._text = "x"
