"""What Python workers forget between tasks."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from aioproducer.spark.worker_start import drop_zip_importers


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
