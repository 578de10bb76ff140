"""The generated parts of the documentation are in step with the code, and name every option."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from aioproducer.config.options import OPTIONS
from benchmarks.recorded import Run, Table
from tests.documentation import figures
from tests.documentation.figures import renewed, unkeyed
from tests.documentation.pages import DOCS, PAGES, ROOT, name
from tests.documentation.public_api import folded
from tests.documentation.tables import COMMAND, PARTS, Part


@pytest.mark.parametrize("part", PARTS, ids=lambda each: f"{name(each.page)} {each.name}")
def test_a_generated_part_is_in_step(part: Part) -> None:
    if part.page.read_text("utf-8") != part.refreshed():
        pytest.fail(f"{name(part.page)} is out of date; run: {COMMAND}")


@pytest.mark.parametrize("markers", [[], ["begin"], ["end"], ["begin", "end", "begin", "end"]])
def test_markers_must_be_there_once(tmp_path: Path, markers: list[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("\n".join(f"<!-- x:{each} -->" for each in markers), "utf-8")
    with pytest.raises(ValueError, match="once each"):
        Part(page, "x", lambda: "").refreshed()


def test_only_the_section_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- x:begin -->\nold\n<!-- x:end -->\n\nMore.\n", "utf-8")
    refreshed = Part(page, "x", lambda: "new\n").refreshed()
    assert refreshed == "# Title\n\n<!-- x:begin -->\nnew\n<!-- x:end -->\n\nMore.\n"


def test_a_part_that_is_out_of_date_is_noticed() -> None:
    for part in PARTS:
        other = part._replace(text=lambda: "something else")
        assert other.refreshed() != part.refreshed()


def test_a_long_signature_continues_below_its_name() -> None:
    """It breaks between arguments, not inside their types."""
    arguments = [f"given_{number}: Mapping[str, tuple[int, int]]" for number in range(4)]
    line = f"    async check({', '.join(arguments)}) -> None"
    first, *others = folded(line).splitlines()
    assert first == f"    async check({arguments[0]}, {arguments[1]},"
    assert others == [f"            {arguments[2]}, {arguments[3]}) -> None"]
    assert folded("    close() -> None") == "    close() -> None"


def test_a_page_of_signatures_fits() -> None:
    [page] = [part.text() for part in PARTS if part.name == "public-names"]
    assert max(map(len, page.splitlines())) <= 104


WITH_FIGURES: Final = (*PAGES, *sorted((ROOT / "benchmarks").glob("*.md")))


@pytest.mark.parametrize("page", WITH_FIGURES, ids=name)
def test_every_figure_is_a_recorded_one(page: Path) -> None:
    text = page.read_text("utf-8")
    assert unkeyed(text) == [], "give each its key (benchmarks/README.md), or leave it out"
    if text != renewed(text):
        pytest.fail(f"{name(page)} is out of date; run: {COMMAND}")


@pytest.mark.parametrize(
    "text",
    [
        "It sends 767,000 records/s.",
        "It is 1.11 \N{MULTIPLICATION SIGN} as fast.",
        "That is \N{MULTIPLICATION SIGN} 1.11.",
        "0.7 x aiokafka",
        "A record costs 1.3 µs.",
        "It is 7.5 times as fast as\naiokafka.",
        "<!-- other:begin -->\n9 rows/s\n<!-- other:end -->",
    ],
)
def test_a_figure_without_a_key_is_found(text: str) -> None:
    assert len(unkeyed(text)) == 1


def test_a_figure_that_was_changed_by_hand_is_renewed() -> None:
    text = "At <!--bulk:aioproducer:defaults:records/s-->1<!----> records/s."
    assert unkeyed(text) == []
    assert renewed(renewed(text)) == renewed(text) != text
    with pytest.raises(LookupError, match="no recorded run"):
        renewed(text.replace("bulk", "unknown"))


HEADINGS: Final = ["client", "settings", "records/s", "CPU-µs/record", "p50 ms", "p99 ms"]


def measured(*rows: str) -> Table:
    run = Run("python -m benchmarks", "0123456789", "2026-01-01", {}, "mock")
    return Table("", HEADINGS, 2, [row.split() for row in rows], run)


def test_every_case_in_which_a_peer_is_faster_is_named() -> None:
    found = {
        "bulk": measured(
            "aioproducer defaults 100 2.0 - -",
            "aioproducer tuned 1 2.0 - -",
            "aioproducer-asyncio defaults 1 9 - -",
            "aioproducer-sync defaults 300 2.0 - -",
            "confluent defaults 200 1.0 - -",
            "aiokafka defaults 50 1.0 - -",
        ),
        "tasks@kafka": measured(
            "aioproducer defaults 100 1.0 1.0 9.0", "aiokafka defaults 100 1.0 2.0 4.0"
        ),
    }
    assert [*figures.slower(found)] == [
        "- confluent-kafka leads in records/s: `bulk` 0.50",
        "- aiokafka leads in p99: `tasks`, a real Kafka 2.2",
    ]
    text = figures._table(figures.compared(found, ""))
    assert [line.split(" | ")[0] for line in text.splitlines()[2:]] == [
        *("| `bulk`", "| `bulk`, sync", "| `tasks`, a real Kafka"),
    ]
    assert "confluent **0.50** at **2.0**; aiokafka 2.0 at **2.0** |" in text
    assert "| 1.0, 9.0 | aiokafka 1.00 at 1.00, p50 0.50, p99 **2.2** |" in text


def test_a_page_of_figures_can_be_read_in_minutes() -> None:
    assert len((ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8").splitlines()) <= 150


PAGE: Final = (DOCS / "how-to" / "from-kafka-python.md").read_text("utf-8")


def test_the_options_of_kafka_python_are_there_unless_they_are_ours() -> None:
    kafka = pytest.importorskip("kafka")
    missing = {
        name
        for name in kafka.KafkaProducer.DEFAULT_CONFIG
        if name not in OPTIONS
        and f"`{name}`" not in PAGE
        and f"`{name}=" not in PAGE
        and f"`{name}," not in PAGE
    }
    assert missing == set()
