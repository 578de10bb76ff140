"""Places in a partition, as they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from aioproducer.cli.positions import moment, position
from aioproducer.errors import ConfigError
from aioproducer.reader import Position

NOW = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("beginning", "beginning"),
        ("earliest", "beginning"),
        ("end", "end"),
        ("latest", "end"),
        ("0", 0),
        ("1234567890123", 1234567890123),
        ("-10", -10),
        ("@0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("@1700000000.5", datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (
            "2026-01-31T12:00:00+02:00",
            datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2))),
        ),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 12).astimezone()),
        ("2026-01-31", datetime(2026, 1, 31).astimezone()),
        ("90s", datetime(2026, 1, 31, 12, 28, 30, tzinfo=UTC)),
        ("1d12h30m", datetime(2026, 1, 30, 0, 0, tzinfo=UTC)),
        ("2w", datetime(2026, 1, 17, 12, 30, tzinfo=UTC)),
    ],
)
def test_places(text: str, meant: Position) -> None:
    found = position("--from", text, NOW)
    assert found == meant
    if isinstance(found, datetime):
        assert found.tzinfo is not None


@pytest.mark.parametrize(
    "text", ["", "now", "@", "@1e99", "--1", "1.5", "9" * 30, "2026-13-01", "h", "1m1h"]
)
def test_no_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--from '.*': write beginning, end, an offset"):
        position("--from", text, NOW)


def test_times_alone() -> None:
    assert moment("--to-time", "1h", NOW) == datetime(2026, 1, 31, 11, 30, tzinfo=UTC)
    assert moment("--to-time", "@0", NOW) == datetime(1970, 1, 1, tzinfo=UTC)
    for text in ("end", "-10", "17", "999999999w"):
        with pytest.raises(ConfigError, match=r"--to-time '.*': write a time: .* 1h \(ago\)"):
            moment("--to-time", text, NOW)
