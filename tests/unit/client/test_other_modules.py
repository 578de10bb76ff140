"""Names of other modules, asked of the package: the error has the line to write."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import aioproducer
from aioproducer.engine.client.elsewhere import _LINES

UNKNOWN, RECORD = "Produce", "ConsumerRecord"


@pytest.mark.parametrize(
    "name", ["ConsumerRecord", "KafkaConsumer", "NewTopic", "KafkaProducer", "MockProducer"]
)
def test_an_import_says_which_line_to_write(name: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from aioproducer import {name}", {})
    assert str(caught.value) == (
        f"cannot import name {name!r} from 'aioproducer': write `{_LINES[name]}`"
    )


def test_an_unknown_name_is_an_error_without_a_hint() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Produce' from 'aioproducer'"):
        exec("from aioproducer import Produce", {})
    with pytest.raises(AttributeError, match=r"module 'aioproducer' has no attribute 'Produce'$"):
        getattr(aioproducer, UNKNOWN)


def test_an_attribute_is_missing_as_everywhere() -> None:
    assert not hasattr(aioproducer, RECORD)
    assert getattr(aioproducer, RECORD, None) is None
    with pytest.raises(AttributeError, match=r"write `from aioproducer\.reader import"):
        getattr(aioproducer, RECORD)


def test_the_other_clients_are_imported_when_they_are_asked_for() -> None:
    code = (
        "import sys, aioproducer\n"
        "rooms = {'aioproducer.admin', 'aioproducer.consumer', 'aioproducer.reader'}\n"
        "print(rooms & {*sys.modules})\n"
        "from aioproducer import Admin, Consumer, Reader\n"
        "print(rooms <= {*sys.modules}, Consumer is aioproducer.consumer.Consumer)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["set()", "True True"]


@pytest.mark.parametrize("line", sorted(set(_LINES.values())))
def test_the_lines_work(line: str) -> None:
    exec(line, {})


def test_no_name_of_the_package_is_in_the_way() -> None:
    assert not set(_LINES) & set(aioproducer.__all__)


def test_a_submodule_is_imported_as_before() -> None:
    code = "from aioproducer import consumer, testing; print(consumer.Consumer)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "Consumer" in done.stdout
    assert importlib.import_module("aioproducer.consumer")
