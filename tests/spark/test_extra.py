"""The extra ``spark`` brings everything that PySpark needs for its Arrow functions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.spark

PYPROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"


def packages(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[^\w-]", each, maxsplit=1)[0] for each in requirements}


def test_the_packages_of_pysparks_own_extra() -> None:
    needed = [each for each in requires("pyspark") or () if re.search(r"extra == .sql.", each)]
    assert "pandas" in packages(needed)
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    ours = packages(project["optional-dependencies"]["spark"]) | {"numpy"}  # pandas brings it
    assert packages(needed) <= ours
