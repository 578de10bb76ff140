"""The table, the details and the exit code of `make chaos`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from aioproducer.testing.fault_proxy import Cut
from benchmarks.chaos.__main__ import main
from benchmarks.chaos.clients import CLIENTS
from benchmarks.chaos.ledger import Footprint
from benchmarks.chaos.plan import Disturbances
from benchmarks.chaos.report import details, table
from benchmarks.chaos.run import Outcome
from benchmarks.chaos.verdict import Verdict


def outcome(client: str, *, missing: int = 0, lied: int = 0) -> Outcome:
    return Outcome(
        CLIENTS[client],
        Verdict(1000, 998, 2, missing, 0, 0, 0, lied, 0, 0, 0),
        12.34,
        Counter({"DeliveryTimeoutError": 2}),
        {"DeliveryTimeoutError": "chaos-3: too late"},
        Counter({Disturbances.KILL: 3}),
        Counter({Cut: 17}),
    )


def test_a_row_per_client() -> None:
    headings, ours, confluent = table([outcome("ours", lied=4), outcome("confluent", missing=5)])
    assert headings.split()[:6] == [
        "client",
        "records",
        "acknowledged",
        "failed",
        "missing",
        "twice",
    ]
    assert ours.split() == ["ours", "1,000", "998", "2", "0", "0", "0", "0", "4", *"000", "12.3"]
    assert confluent.split()[4:9] == ["5", "0", "0", "0", "-"]
    assert len({len(line) for line in (headings, ours, confluent)}) == 1


def test_details_say_what_happened() -> None:
    assert list(details(outcome("ours"))) == [
        "ours: brokers 3 x kill; connections 17 x Cut",
        "  2 x DeliveryTimeoutError, such as: chaos-3: too late",
    ]


def test_details_draw_what_the_process_took_over_time() -> None:
    footprints = [Footprint((1 + second) << 20, 20) for second in range(240)]
    _, memory, files, *_ = details(replace(outcome("ours"), footprints=footprints))
    curve = "▁" * 7 + "▂" * 8 + "▃" * 7 + "▄" * 8 + "▅" * 7 + "▆" * 8 + "▇" * 7 + "█"
    assert memory.split()[:3] == ["memory", "over", "time"]
    assert memory.split()[3] == curve, memory
    assert memory.endswith("1 to 240 MB")
    assert files == f"  open files         {'█' * 60}  20 to 20"


@pytest.mark.parametrize(
    ("client", "missing", "broke"),
    [("ours", 0, False), ("ours", 1, True), ("aiokafka", 1, False)],
)
def test_only_our_promises_are_our_word(client: str, missing: int, broke: bool) -> None:
    assert outcome(client, missing=missing).broke_our_word is broke


@pytest.mark.parametrize(
    "options", [["--clients", "ours,theirs"], ["--disturbances", "earthquake"]]
)
def test_unknown_names_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert "is none of" in capsys.readouterr().err
