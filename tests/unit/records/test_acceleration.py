"""Which of the two is in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import aioproducer

_SAY = (
    "import aioproducer; from aioproducer.engine.records.acceleration import RecordsBuilder;"
    "print(aioproducer.__accelerated__, RecordsBuilder.__module__)"
)
_REFERENCE = "False aioproducer.engine.records.builder"


def said(code: str, pure: str) -> str:
    environment = os.environ | {"AIOPRODUCER_PURE_PYTHON": pure}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


@pytest.mark.any_form
def test_the_environment_forces_the_reference() -> None:
    assert said(_SAY, pure="1") == _REFERENCE


@pytest.mark.any_form
@pytest.mark.parametrize("instead", ["None", "types.ModuleType('of an older version')"])
def test_what_was_not_built_is_not_missed(instead: str) -> None:
    name = "aioproducer.engine.records._speedups"
    not_built = f"import sys, types; sys.modules['{name}'] = {instead};"
    assert said(not_built + _SAY, pure="") == _REFERENCE


def test_this_run_uses_what_it_was_told_to() -> None:
    expected = said(_SAY, os.environ.get("AIOPRODUCER_PURE_PYTHON", "")).split()[0]
    assert str(aioproducer.__accelerated__) == expected


@pytest.mark.any_form
def test_what_is_compiled_is_in_use() -> None:
    """CI has a compiler; elsewhere its absence is no fault."""
    in_use = said(_SAY, pure="") == "True aioproducer.engine.records._speedups"
    if not in_use and os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") != "1":
        compiler = shutil.which(os.environ.get("CC", "cc"))
        pytest.skip(f"aioproducer was installed without its compiled part (compiler: {compiler})")
    assert in_use, "AIOPRODUCER_REQUIRE_KAFKA=1, but the compiled part was not built"
