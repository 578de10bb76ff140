"""The plot of the benchmark shows the figures of the README, and no others."""

from __future__ import annotations

import re

import pytest

from tests.documentation.pages import ROOT
from tests.documentation.pictures import COMMAND, THROUGHPUT, figures, throughput

README = (ROOT / "README.md").read_text("utf-8")


def test_the_plot_is_in_step_with_the_readme() -> None:
    if THROUGHPUT.read_text("utf-8") != throughput(README):
        pytest.fail(f"{THROUGHPUT.name} is out of date; run: {COMMAND}")


def test_a_bar_is_as_long_as_its_rate() -> None:
    rows = figures(README)
    lengths = [
        float(each) for each in re.findall(r'width="([\d.]+)" height="22"', throughput(README))
    ]
    rates = [
        rate
        for row in rows
        for rate in (row.rate, *(row.rate / float(t) for t in row.times.values()))
    ]
    assert len(rates) > len(rows) > 1
    assert lengths == pytest.approx([rate / max(rates) * max(lengths) for rate in rates], abs=0.1)


def test_a_figure_that_changes_is_noticed() -> None:
    [first, *_] = figures(README)
    other = README.replace(f"{first.rate:,}", f"{first.rate + 1_000:,}")
    assert throughput(other) != throughput(README)


def test_nothing_is_loaded_from_elsewhere() -> None:
    for picture in THROUGHPUT.parent.glob("*.svg"):
        text = picture.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, picture.name
