"""What the collections of a Python worker leave out."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from aioproducer.spark import worker_start
from aioproducer.spark.worker_start import freeze_imported


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is frozen before a test; afterwards it is as ``tests/conftest.py`` left it."""
    monkeypatch.setattr(worker_start, "_frozen", False)
    gc.unfreeze()
    yield
    gc.freeze()


class Task:
    """Garbage of a task: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_modules_are_left_out() -> None:
    freeze_imported()
    assert gc.get_freeze_count() > 10_000
    assert not any(each is Task for each in gc.get_objects())


def test_garbage_of_later_tasks_is_collected() -> None:
    freeze_imported()
    garbage = weakref.ref(Task())
    freeze_imported()
    gc.collect()
    assert garbage() is None
