"""The parts of `aioproducer tail`: positions, records as text, and a terminal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from aioproducer.cli.app import run
from aioproducer.cli.positions import moment, position
from aioproducer.cli.tail import as_json, template
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError
from aioproducer.model import ConsumerRecord
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


RECORD = ConsumerRecord(
    "orders",
    3,
    42,
    1_700_000_000_123,
    "CreateTime",
    b"k\xff",
    b"value",
    (("trace", b"1"), ("none", None), ("trace", b"\xfe")),
)
NULLS = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%s\\n", b"value\n"),
        ("%t [%p] at %o: %k=%s (%T)", b"orders [3] at 42: k\xff=value (1700000000123)"),
        ("%h", b"trace=1,none=,trace=\xfe"),
        ("%K %S", b"2 5"),
        ("%R", b"\0\0\0\x05"),
        ("100%% %s", b"100% value"),
        (r"\t\r\0\\\x41\q\x4", b"\t\r\0\\A\\q\\x4"),
        ("ü%p\\", "ü3\\".encode()),
        ("", b""),
    ],
)
def test_tokens(text: str, shown: bytes) -> None:
    assert template(text)(RECORD) == shown


def test_nulls() -> None:
    assert template("%k|%s|%K|%S|%h|%R")(NULLS) == b"||-1|-1||\xff\xff\xff\xff"
    assert template("%k|%s", "NULL")(NULLS) == b"NULL|NULL"
    assert template("%h", "NULL")(RECORD) == b"trace=1,none=NULL,trace=\xfe"


@pytest.mark.parametrize("text", ["%q", "%", "%s%"])
def test_an_unknown_token_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="write one of %t, %p, %o, %k, %s"):
        template(text)


def test_json_has_text_as_text_and_bytes_in_base64() -> None:
    line = as_json(RECORD)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp_ms": 1_700_000_000_123,
        "timestamp_type": "CreateTime",
        "key": "a/8=",
        "key_encoding": "base64",
        "value": "value",
        "headers": [
            {"key": "trace", "value": "1"},
            {"key": "none", "value": None},
            {"key": "trace", "value": "/g==", "value_encoding": "base64"},
        ],
    }


def test_json_of_nulls_and_of_other_scripts() -> None:
    found = json.loads(as_json(NULLS))
    assert (found["key"], found["value"], found["headers"]) == (None, None, [])
    assert "grüße\\n".encode() in as_json(RECORD._replace(value="grüße\n".encode()))


def test_json_of_a_header_that_is_no_text() -> None:
    line = as_json(RECORD._replace(headers=(("\udcff", b"1"),)))
    assert json.loads(line)["headers"] == [{"key": "\udcff", "value": "1"}]


HOSTILE = "\x1b]0;owned\x07\r\x9b2J\u202e\u2066"
"""It sets a window's title, goes to the line's begin, clears the screen, and turns text around."""


def test_a_terminal_is_given_no_orders() -> None:
    record = RECORD._replace(
        key=HOSTILE.encode(),
        value=f"two\nlines\tof grüße,\u3000日本 {HOSTILE}".encode() + b"\xff",
        headers=((HOSTILE, HOSTILE.encode()),),
    )
    escaped = r"\x1b]0;owned\x07\r\x9b2J\u202e\u2066"
    render = template(r"%k|%s|%h\x1b[0m", for_people=True)
    assert render(record).decode() == (
        f"{escaped}|two\nlines\tof grüße,\u3000日本 {escaped}\\xff|{escaped}={escaped}\x1b[0m"
    )
    assert template("%k")(record) == HOSTILE.encode(), "a pipe gets the bytes"


def test_json_gives_a_terminal_no_orders() -> None:
    line = as_json(RECORD._replace(value=HOSTILE.encode(), headers=((HOSTILE, None),)))
    assert line[:-1].decode().isprintable()
    found = json.loads(line)
    assert (found["value"], found["headers"][0]["key"]) == (HOSTILE, HOSTILE)


@pytest.mark.parametrize(
    ("options", "waits"),
    [([], True), (["--from", "end"], True), (["--from", "-1"], False), (["-e"], False)],
    ids=["no position", "the end", "the last record", "until the end"],
)
def test_a_person_is_told_that_it_waits_for_new_records(
    options: list[str], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Terminal, "is_interactive", True)
    monkeypatch.setattr(Terminal, "say", lambda _, text: said.append(text))
    assert run(["tail", "t", "-b", "127.0.0.1:1", "-X", "max_block_ms=1", *options]) == 1
    assert any("--from beginning shows old ones" in each for each in said) is waits
