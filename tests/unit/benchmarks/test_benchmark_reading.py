"""The loads, the numbers and the tables of `python -m benchmarks.reading`."""

from __future__ import annotations

from benchmarks.reading.drivers import Amount
from benchmarks.reading.plan import CLIENTS, LOADS
from benchmarks.reading.report import describe
from benchmarks.reading.run import why_void
from benchmarks.summary import Run, summarise

PLAIN = LOADS["read_100"]


def test_a_run_counts_only_if_every_record_and_byte_was_read() -> None:
    there = Amount(10, 1_000)
    assert why_void(there, Amount(10, 1_000)) is None
    for read in (Amount(9, 1_000), Amount(10, 999), Amount(11, 1_100)):
        assert "and the topic has 10 with 1000" in (why_void(there, read) or "")


def test_a_section_shows_rates_ratios_and_void_runs() -> None:
    def run(client: str, rate: float, number: int = 1, void: str | None = None) -> Run:
        numbers = {} if void else {"records_per_second": rate, "cpu_us_per_record": 1e6 / rate}
        return Run(client, PLAIN.name, number, 0.1, void, numbers)

    runs = [
        run("aioproducer", 2_000_000),
        run("aiokafka", 500_000),
        run("aiokafka", 0, 2, "it failed"),
    ]
    clients = [CLIENTS["aioproducer"], CLIENTS["aiokafka"], CLIENTS["confluent"]]
    section = describe(PLAIN, clients, summarise(runs), 1_000_000)
    assert section.title == (
        "read_100: 1,000,000 records, values of 100 bytes, none; 36 partitions"
    )
    assert [row[0] for row in section.rows] == ["aioproducer", "aiokafka"]
    assert [len(row) for row in section.rows] == [len(section.headings)] * 2
    assert section.rows[0][1] == "2,000,000"
    assert section.ratios == ("aioproducer / aiokafka: 4.00 x records/s, 0.25 x CPU",)
    assert section.voids == ("VOID aiokafka, round 2: it failed",)
    assert section.settings == ("aioproducer: defaults, uvloop", "aiokafka: defaults, uvloop")
