"""The README's option tables are those of ``aioproducer/config/options.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer.config import document
from aioproducer.errors import ConfigError

README = Path(__file__).parents[2] / "README.md"


def test_readme_is_in_step_with_the_option_table() -> None:
    assert README.is_file(), f"{README} is missing"
    try:
        section = document.section(README.read_text("utf-8"))
    except ConfigError as error:
        pytest.fail(f"README.md: {error}")
    if section != document.markdown():
        pytest.fail(f"its option tables are out of date; run: {document.REFRESH_COMMAND}")
