"""The plot of the benchmark shows the figures of the README, and no others."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documentation.pages import DOCS, ROOT
from tests.documentation.pictures import COMMAND, COMMANDS, PLOTS
from tests.documentation.plots import figures, throughput
from tests.documentation.terminal import picture, screen

README = (ROOT / "README.md").read_text("utf-8")
IMAGES = DOCS / "images"
DIAGRAMS = sorted(
    path for path in IMAGES.glob("*.svg") if path not in {*COMMANDS, IMAGES / "demo.svg"}
)
"""The others show a terminal, which is dark on every page."""


@pytest.mark.parametrize("path", PLOTS, ids=lambda path: path.name)
def test_a_plot_is_in_step_with_the_readme(path: Path) -> None:
    if path.read_text("utf-8") != PLOTS[path](README):
        pytest.fail(f"{path.name} is out of date; run: {COMMAND}")


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.name)
def test_a_diagram_has_a_dark_form(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "@media (prefers-color-scheme: dark)" in text
    drawn = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    assert re.findall(r"#[0-9a-f]{3,6}\b", drawn) == [], "colours are variables of the style"
    names = set(re.findall(r"var\((--\w+)\)", text))
    light, dark = (set(re.findall(r"(--\w+):", each)) for each in re.findall(r"svg {.*}", text))
    assert names <= light == dark


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


@pytest.mark.parametrize("draw", PLOTS.values(), ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("times", ["1.00", "99.9"])
def test_the_texts_beside_bars_fit(draw: Callable[[str], str], times: str) -> None:
    """A letter of 14 pixels is up to 7.6 wide on average in the widest of the usual fonts."""
    drawn = draw(README.replace(f" {figures(README)[0].times['confluent-kafka']} |", f" {times} |"))
    [width] = re.findall(r'<svg .* width="(\d+)"', drawn)
    texts = re.findall(r'<text x="([\d.]+)" y="\d+" class="soft">(.*?)</text>', drawn)
    assert f"aioproducer sends {times}\N{MULTIPLICATION SIGN}" in dict(texts).values()
    for x, text in texts:
        assert float(x) + 7.6 * len(text) <= float(width), text


def test_a_figure_that_changes_is_noticed() -> None:
    [first, *_] = figures(README)
    other = README.replace(f"{first.rate:,}", f"{first.rate + 1_000:,}")
    assert throughput(other) != throughput(README)


def test_the_pictures_of_commands_have_their_commands() -> None:
    for path, shown in COMMANDS.items():
        text = html.unescape(path.read_text("utf-8")).replace("\xa0", " ")
        for line in shown:
            assert line in text, f"{path.name} is out of date; run: {COMMAND}"


def test_a_screen_has_the_lines_that_were_not_erased() -> None:
    frame = "\x1b[1mhead\x1b[0m\r\n one\r\n"
    again = "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2Khead\r\n two\r\n"
    assert screen(f"before\r\n{frame}{again}after\r\n") == "before\nhead\n two\nafter"
    assert "two" in picture("title", screen(frame + again))


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in IMAGES.glob("*.svg"):
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        without_texts = re.sub(r">[^<]*<", "><", text)
        assert "://" not in without_texts, path.name
