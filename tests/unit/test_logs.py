"""Log lines: the client's id, fields, repeats that are counted, and the words for durations."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import aioproducer
from aioproducer.errors import BrokerConnectionError, ConfigError
from aioproducer.foundation import logs
from aioproducer.foundation.logs import counted, duration

PACKAGE = Path(aioproducer.__file__).parent


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(clock: Clock, caplog: pytest.LogCaptureFixture) -> Iterator[logs.ClientLog]:
    caplog.set_level(logging.DEBUG, "aioproducer")
    log = logs.ClientLog("shop", clock)
    with logs.entered(log):
        yield log


LOGGER = logs.ModuleLogger("aioproducer.room.module")


def refused(topic: str = "orders", records: int = 10) -> None:
    LOGGER.repeated(
        logging.ERROR,
        ("failed", topic),
        "%d records for %s failed",
        records,
        topic,
        records=records,
    )


def test_a_line_names_its_client_and_has_fields(
    client: logs.ClientLog, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGER.warning("%s failed", "broker 1", node=1, error=BrokerConnectionError("gone"))
    (record,) = caplog.records
    assert record.getMessage() == "[shop] broker 1 failed"
    assert (record.name, record.levelname) == ("aioproducer.room.module", "WARNING")
    assert (record.filename, record.funcName) == (
        "test_logs.py",
        "test_a_line_names_its_client_and_has_fields",
    )
    told: Any = record
    assert (told.client_id, told.node) == ("shop", 1)
    assert (told.error, told.reason) == ("BrokerConnectionError", "gone")


@pytest.mark.parametrize("name", ["100%", "a%sb", "%(x)d"])
def test_a_client_id_is_no_format(
    name: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "aioproducer")
    with logs.entered(logs.ClientLog(name, clock)):
        LOGGER.info("100 % sure")
        LOGGER.info("%d %% sure", 100)
    assert caplog.messages == [f"[{name}] 100 % sure"] * 2


def test_outside_of_a_client_nothing_is_added_or_held_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "aioproducer")
    for _ in range(3):
        refused()
    assert caplog.messages == ["10 records for orders failed"] * 3
    assert not hasattr(caplog.records[0], "client_id")
    assert logs.tell_due() is None
    assert logs.current() is None


def test_repeats_are_told_after_a_second_ten_and_each_minute(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2_000):
        refused()
        clock.now += 0.125
        logs.tell_due()
    assert caplog.messages == [
        "[shop] 10 records for orders failed",
        "[shop] 10 records for orders failed (6 more times, 60 records, in 1 s)",
        "[shop] 10 records for orders failed (79 more times, 790 records, in 10 s)",
        "[shop] 10 records for orders failed (479 more times, 4790 records, in 60 s)",
        "[shop] 10 records for orders failed (479 more times, 4790 records, in 60 s)",
        "[shop] 10 records for orders failed (479 more times, 4790 records, in 60 s)",
    ]
    second: Any = caplog.records[1]
    assert (second.repeats, second.repeated_records, second.records) == (6, 60, 10)


def failed(topic: str) -> None:
    LOGGER.repeated(
        logging.ERROR, "failed", "2 records for %s failed", topic, records=2, topic=topic
    )


def test_an_outage_of_thousands_of_topics_is_a_few_lines(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        for number in range(3_000):
            failed(f"topic-{number}")
        clock.now += 1
        logs.tell_due()
    assert caplog.messages == [
        "[shop] 2 records for topic-0 failed",
        "[shop] 2 records for topic-2999 failed (2998 more times, 5996 records, for topic-1,"
        " topic-2, topic-3 and 2995 other topics, in 1 s)",
    ]
    last: Any = caplog.records[-1]
    assert (last.topic, last.repeated_topics) == ("topic-2999", 2998)


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ("aa", "2 records for a failed"),
        ("aba", "2 records for a failed (1 more time, 2 records, for b, in 1 s)"),
        ("abca", "2 records for a failed (2 more times, 4 records, for b and c, in 1 s)"),
        ("abcda", "2 records for a failed (3 more times, 6 records, for b, c and d, in 1 s)"),
        (
            "abcdea",
            "2 records for a failed (4 more times, 8 records, for b, c, d and 1 other topic,"
            " in 1 s)",
        ),
    ],
)
def test_a_few_topics_are_named(
    topics: str, told: str, client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in topics:
        failed(topic)
    clock.now += 1
    logs.tell_due()
    assert caplog.messages[1:] == [f"[shop] {told}"]


def test_a_topic_that_joins_a_long_outage_is_told_within_a_second(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        failed("orders")
        clock.now += 1
        logs.tell_due()
    before = len(caplog.messages)
    failed("payments")
    failed("orders")
    clock.now += 1
    logs.tell_due()
    assert [each for each in caplog.messages[before:] if "payments" in each]


def test_what_is_held_back_is_told_at_the_end(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        refused()
    assert caplog.records[0].filename == "test_logs.py"
    assert logs.tell_due() == clock.now + 1.0
    assert len(caplog.messages) == 1
    logs.tell_due(all_of_them=True)
    assert "(1 more time, 10 records" in caplog.messages[1]
    assert logs.tell_due() is None


def test_causes_and_loggers_are_told_apart(
    client: logs.ClientLog, caplog: pytest.LogCaptureFixture
) -> None:
    other = logs.ModuleLogger("aioproducer.other")
    for _ in range(5):
        refused("a")
        refused("b")
        other.repeated(logging.ERROR, ("failed", "a"), "another module's")
    assert len(caplog.messages) == 3


def over() -> None:
    LOGGER.over(logging.ERROR, ("failed", "orders"))


def test_a_cause_that_is_over_is_told_no_more(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        refused()
    over()
    logs.tell_due(all_of_them=True)
    assert len(caplog.messages) == 1
    clock.now += logs.INTERVALS[-1]
    refused()
    assert caplog.messages == ["[shop] 10 records for orders failed"] * 2


def test_a_cause_that_comes_and_goes_repeats(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker flaps every two seconds for five minutes."""
    for _ in range(150):
        for _ in range(4):
            refused()
            clock.now += 0.25
            logs.tell_due()
        over()
        clock.now += 1.0
    assert len(caplog.messages) <= 32
    assert "(19 more times, 190 records, in 10 s)" in caplog.messages[-1]


def test_a_cause_that_comes_back_to_stay_is_told_soon(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1_000):
        refused()
        clock.now += 0.25
        logs.tell_due()
    over()
    caplog.clear()
    while not caplog.messages:
        refused()
        clock.now += 0.25
        logs.tell_due()
        assert clock.now < 100 + 250 + logs.INTERVALS[1] + 1


def test_a_cause_that_was_quiet_for_long_is_told_at_once(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    refused()
    clock.now += 3_600
    refused()
    assert caplog.messages == ["[shop] 10 records for orders failed"] * 2


def test_many_causes_take_little_memory_and_few_lines(
    client: logs.ClientLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20_000):
        refused(f"topic-{number}")
    # A collection may tell of a task of another test among so many objects.
    written = [record for record in caplog.records if record.name == "aioproducer.room.module"]
    assert len(written) == logs.MOST_CAUSES + 1
    clock.now += 3_600
    logs.tell_due()
    caplog.clear()
    refused("a new one")
    assert caplog.messages == ["[shop] 10 records for a new one failed"]


def test_many_causes_hide_no_line_of_a_higher_level(
    client: logs.ClientLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(logs.MOST_CAUSES + 10):
        LOGGER.repeated(logging.INFO, ("retry", number), "a retry")
    caplog.clear()
    refused()
    assert caplog.messages == ["[shop] 10 records for orders failed"]


def test_a_line_that_nobody_reads_is_not_counted(
    client: logs.ClientLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aioproducer")
    for _ in range(10):
        refused()
    assert logs.tell_due() is None


METHODS = {"debug", "info", "warning", "error", "repeated"}
OWN = {"exc_info", "records", "log"}


def fields_in_use() -> dict[str, str]:
    """The names of fields, with the file that uses them."""
    found: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text("utf-8")
        if "ModuleLogger" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = ast.unparse(node.func.value)
                if name == "logger" and node.func.attr in METHODS:
                    found |= {each.arg: path.name for each in node.keywords if each.arg}
    return {name: where for name, where in found.items() if name not in OWN}


def test_no_field_collides_with_an_attribute_of_a_log_record() -> None:
    """The standard library raises a KeyError for such a field, and structlog leaves it out."""
    fields = fields_in_use()
    assert {"error", "topic", "producer_id"} <= fields.keys()
    taken = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event", "level"}
    taken |= {"timestamp", "logger", "exception"}
    assert not taken & {*fields, "client_id", "records", "reason", "repeats", "repeated_records"}


def test_every_module_of_the_core_uses_such_a_logger() -> None:
    """Lines without a client's id are those of rooms that serve no single client."""
    plain = {
        path.relative_to(PACKAGE / "engine").parts[0]
        for path in (PACKAGE / "engine").rglob("*.py")
        if "= logging.getLogger(" in path.read_text("utf-8")
    }
    assert not plain & {"bulk", "core", "interceptors.py", "sender", "telemetry", "transactions"}


def test_the_names_of_loggers_leave_the_folder_out(caplog: pytest.LogCaptureFixture) -> None:
    """The page on log lines promises ``aioproducer.sender``, wherever the room lies."""
    caplog.set_level(logging.INFO, "aioproducer")
    logs.ModuleLogger("aioproducer.engine.sender.refresher").info("one")
    logs.ModuleLogger("aioproducer.failed_records").info("another")
    loggers = [each.name for each in caplog.records]
    assert loggers == ["aioproducer.sender.refresher", "aioproducer.failed_records"]


def test_no_logger_is_named_after_the_folder() -> None:
    for path in (PACKAGE / "engine").rglob("*.py"):
        assert "logging.getLogger(__name__)" not in path.read_text("utf-8"), path


def test_values_of_a_line_give_a_terminal_no_orders_and_begin_no_line(
    client: logs.ClientLog, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGER.warning("broker %s says %s, %d", "a\nCRITICAL forged", "\x1b[2J\u202e", 7)
    [line] = [each.getMessage() for each in caplog.records]
    assert line == r"[shop] broker a\nCRITICAL forged says \x1b[2J\u202e, 7"


class _Text:
    """An object of another library, whose text is a peer's."""

    def __str__(self) -> str:
        return "a\n\x1b[2J"

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (ValueError("a\nCRITICAL forged\x1b[2J\x9b"), r"a\n  CRITICAL forged\x1b[2J\x9b"),
        (UnicodeError(), ""),
        (_Text(), r"a\n\x1b[2J"),
        (["\x1b\u202e"], r"['\x1b\u202e']"),
    ],
)
@pytest.mark.parametrize("logger", [LOGGER, logs.plain_logger("aioproducer.sender.other")])
def test_texts_of_other_libraries_give_a_terminal_no_orders(
    value: object, shown: str, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    logger.warning("%s, %r", value, 7)
    assert caplog.records[-1].getMessage() == shown.replace(r"\n  ", "\n  ") + ", 7"
    logger.warning("%r", value)
    assert caplog.records[-1].getMessage().isprintable()


def test_a_traceback_gives_a_terminal_no_orders_and_begins_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = "a\nCRITICAL forged\x1b[2J\u202e"
    failed: BaseException
    try:
        try:
            raise KeyError(bad)
        except KeyError as cause:
            error = ExceptionGroup(bad, [ValueError(bad), ConfigError(bad)])
            error.add_note(bad)
            raise error from cause
    except ExceptionGroup as caught:
        failed = caught
    LOGGER.error("it failed", exc_info=failed)
    logs.plain_logger("aioproducer.sender.other").error("it failed", exc_info=failed)
    told = [logging.Formatter().format(record) for record in caplog.records]
    for text in told:
        assert "Traceback" in text
        assert "ValueError" in text
        assert all(line.isprintable() for line in text.splitlines())
        assert "CRITICAL forged" in text
        assert "\nCRITICAL" not in text
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is failed, "for those who want the object"


@pytest.mark.parametrize("kind", ["note", "syntax", "group", "loop"])
def test_other_places_for_a_text_give_no_orders_either(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = "a\nCRITICAL forged\x1b[2J\u202e"
    error: BaseException = ValueError("fine")
    match kind:
        case "note":
            error.add_note(bad)
        case "syntax":
            error = SyntaxError(bad, (bad, 1, 1, f"x = '{bad}'"))
        case "group":
            error = BaseExceptionGroup("several", [SyntaxError(bad, (bad, 1, 1, bad)), error])
        case "loop":
            error = ValueError(bad)
            error.__cause__ = ValueError("other")
            error.__cause__.__cause__ = error
    logs.plain_logger("aioproducer.sender.other").error("it failed", exc_info=error)
    (record,) = caplog.records
    text = logging.Formatter().format(record)
    assert all(line.isprintable() for line in text.splitlines())
    assert "\nCRITICAL" not in text


def test_values_keep_their_formats(caplog: pytest.LogCaptureFixture) -> None:
    logger = logs.plain_logger("aioproducer.sender.other")
    logger.error("%d %.1f %r %s", Decimal(3), Fraction(1, 2), "a", None)
    logger.error("%(a)s %(b)d", {"a": "\x1b\nCRITICAL", "b": 7})
    assert caplog.messages == ["3 0.5 'a' None", "\\x1b\\nCRITICAL 7"]


def test_all_loggers_of_the_package_escape() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.parts[-2:] != ("foundation", "logs.py"):
            assert not re.search(
                r"^_?logger.* = logging\.getLogger", path.read_text("utf-8"), re.M
            ), path


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000012, "0 s"),
        (0.05, "0.05 s"),
        (0.25, "0.25 s"),
        (1, "1 s"),
        (1.99999, "2 s"),
        (1.2345, "1.23 s"),
        (29.97, "30 s"),
        (30.0, "30 s"),
        (99.99, "100 s"),
        (120.4, "120 s"),
        (1234.5678, "1235 s"),
        (1e9, "1000000000 s"),
        (-0.5, "-0.5 s"),
        (float("inf"), "inf s"),
    ],
)
def test_a_duration_has_three_digits_or_whole_seconds(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "record", "1 record"),
        (2, "pending record", "2 pending records"),
        (1, "batch", "1 batch"),
        (3, "batch", "3 batches"),
        (12345, "byte", "12345 bytes"),
    ],
)
def test_one_is_singular(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_a_large_number_may_have_separators() -> None:
    assert counted(12345, "record", ",") == "12,345 records"
    assert counted(1, "record", ",") == "1 record"
