"""Which of the two forms of the encoders is in use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.any_form

_SAY = "from aioproducer.engine.columnar.encoder import ACCELERATED; print(ACCELERATED)"


def said(code: str, pure: str) -> str:
    environment = os.environ | {"AIOPRODUCER_PURE_PYTHON": pure}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


def test_the_environment_forces_the_references() -> None:
    assert said(_SAY, pure="1") == "False"


@pytest.mark.parametrize("instead", ["None", "types.ModuleType('of an older version')"])
def test_a_part_that_was_not_built_is_not_missed(instead: str) -> None:
    name = "aioproducer.engine.columnar._speedups"
    not_built = f"import sys, types; sys.modules['{name}'] = {instead};"
    assert said(not_built + _SAY, pure="") == "False"


def test_the_compiled_part_is_in_use() -> None:
    """CI has a compiler; elsewhere its absence is no fault."""
    in_use = said(_SAY, pure="") == "True"
    if not in_use and os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") != "1":
        pytest.skip("aioproducer was installed without its compiled part")
    assert in_use, "AIOPRODUCER_REQUIRE_KAFKA=1, but the compiled part was not built"
