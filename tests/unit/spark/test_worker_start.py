"""What Python workers forget between tasks, and what their collections leave out."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from aioproducer.spark import KafkaDataSource, worker_start
from aioproducer.spark.worker_start import drop_zip_importers, freeze_imported


@pytest.fixture
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is frozen before a test; afterwards it is as ``tests/conftest.py`` left it."""
    monkeypatch.setattr(worker_start, "_freezes_left", 2)
    gc.unfreeze()
    yield
    gc.freeze()


class Task:
    """Garbage of a task: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("_no_worker")
def test_modules_are_left_out() -> None:
    freeze_imported()
    assert gc.get_freeze_count() > 10_000
    assert not any(each is Task for each in gc.get_objects())


@pytest.mark.usefixtures("_no_worker")
def test_what_the_first_task_imports_is_left_out_too() -> None:
    freeze_imported()
    imported = Task()
    freeze_imported()
    assert not any(each is imported for each in gc.get_objects())


@pytest.mark.usefixtures("_no_worker")
def test_garbage_of_tasks_is_collected() -> None:
    freeze_imported()
    for _ in range(2):  # of the first task, which the second freeze could keep, and of a later one
        garbage = weakref.ref(Task())
        freeze_imported()
        gc.collect()
        assert garbage() is None


@pytest.mark.usefixtures("_no_worker")
def test_objects_of_later_tasks_are_collected() -> None:
    freeze_imported()
    freeze_imported()
    later = Task()
    freeze_imported()
    assert any(each is later for each in gc.get_objects())


@pytest.mark.usefixtures("_no_worker")
def test_the_processes_of_plans_and_commits_are_workers_too() -> None:
    source = KafkaDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"})
    writer = source.streamWriter(StructType().add("value", "string"), False)
    assert gc.get_freeze_count() > 10_000
    gc.unfreeze()
    writer.commit([], 0)
    assert gc.get_freeze_count() > 10_000


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer Pythons do not read them anew")
def test_archives_are_forgotten_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = str(tmp_path / "packed.zip")
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("aioproducer_test_first.py", "number = 1")
        packed.writestr("aioproducer_test_second.py", "number = 2")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("aioproducer_test_first").number == 1
    assert archive in sys.path_importer_cache
    drop_zip_importers()
    assert archive not in sys.path_importer_cache
    assert importlib.import_module("aioproducer_test_second").number == 2
