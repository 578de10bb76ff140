"""What every test stands on."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from aioproducer.foundation import compiled
from tests.support.eager_tasks import make_all_loops_eager
from tests.support.side_by_side import take_ports_of_this_process

pytest.register_assert_rewrite("tests.support.contract")

settings.register_profile("no deadlines", settings(), deadline=None)
settings.load_profile("no deadlines")  # a slow machine fails nothing

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background, as by `nohup make test &`: what is ignored stays ignored in the
    # processes that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _name in ("SIGHUP", "SIGTERM"):
    _number = getattr(signal, _name, None)  # Windows has no SIGHUP
    if _number is not None and signal.getsignal(_number) is signal.SIG_IGN:
        # A handler is not inherited, so those processes have the default; these tests go on.
        signal.signal(_number, lambda *_: None)

take_ports_of_this_process()

# What tests start on this machine is reached without a proxy, and their terminals are like any.
direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
os.environ["no_proxy"] = os.environ["NO_PROXY"] = f"{direct},localhost,127.0.0.1,::1".lstrip(",")
os.environ["TERM"] = "xterm-256color"
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR"):
    os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def _logger() -> Iterator[None]:
    """A command that runs in this process sets up the library's log; the next test has its own."""
    logger = logging.getLogger("aioproducer")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    if logger.level != level:
        logger.setLevel(level)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No part of a compiled class can be replaced."""
    if compiled.in_use():
        skip = pytest.mark.skip(reason="needs the source in place of compiled modules: make pure")
        for item in items:
            if item.get_closest_marker("source_form"):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Modules and items stay to the end, so no test's collection of garbage goes through them."""
    gc.collect()
    gc.freeze()


if os.environ.get("AIOPRODUCER_EAGER_TASKS"):
    make_all_loops_eager()
