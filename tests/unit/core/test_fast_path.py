"""Where records come in, in Python and in C: who is served, and what becomes of the futures."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from typing import Any, Final

import pytest

from aioproducer.engine.core.sending import PythonFastPath
from aioproducer.engine.partitioning import STICKY
from aioproducer.engine.records import builder as reference
from aioproducer.engine.records import routes
from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.engine.records.field_reader import read_records
from aioproducer.errors import RecordTooLargeError

speedups = pytest.importorskip(
    "aioproducer.engine.records._speedups",
    reason="installed without a compiler",
    exc_type=ImportError,
)

FAST_PATHS: Final = [
    (PythonFastPath, routes.Routes, routes.OpenBuilders, reference.RecordsBuilder),
    (speedups.FastPath, speedups.Routes, speedups.OpenBuilders, speedups.RecordsBuilder),
]


def opened(
    make: tuple[Any, ...],
    loop: asyncio.AbstractEventLoop,
    size: int = 300,
    *wall_clock_ns: Any,
    begin: Any = None,
    wait: Any = None,
) -> tuple[PythonFastPath, RecordsBuilder]:
    """With a batch for keyless records of the topic "t"."""
    make_fast_path, make_routes, make_batches, make_builder = make
    fast_path, routes, batches = make_fast_path(), make_routes(), make_batches()
    builder = make_builder(bytearray(size), size)
    batches.partitions, batches.sticky = [builder], 0
    routes.topics["t"] = batches
    fast_path.open(loop, routes, begin, wait, lambda: 12.5, *wall_clock_ns)
    return fast_path, builder


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_record_that_comes_in_has_a_future_and_the_present_time(make: Any) -> None:
    fast_path, builder = opened(make, asyncio.get_running_loop())
    before = time.time_ns() // 1_000_000
    future = fast_path.send("t", b"value", None, None)
    assert type(future) is asyncio.Future
    assert future.get_loop() is asyncio.get_running_loop()
    token = object()
    assert fast_path.append(token, "t", b"value", None, None)
    after = time.time_ns() // 1_000_000
    assert builder.tokens == [future, token]
    assert all(before <= run[1] <= after for run in builder.runs)
    assert fast_path.send("other", b"value", None, None) is None
    assert not fast_path.append(token, "other", b"value", None, None)
    assert fast_path.send("t", bytes(300), None, None) is None
    assert len(builder.tokens) == 2


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_records_get_the_time_of_another_clock(make: Any) -> None:
    times = iter([7_000_000, 9_000_000])
    fast_path, builder = opened(make, asyncio.get_running_loop(), 300, lambda: next(times))
    assert fast_path.send("t", b"value", None, None) is not None
    assert fast_path.append(object(), "t", b"value", None, None)
    assert [run[1] for run in builder.runs] == [7, 9]


@pytest.mark.parametrize("make", FAST_PATHS)
@pytest.mark.parametrize(("key", "number"), [(None, STICKY), (b"key", 0)])
async def test_a_record_without_an_open_batch_begins_one(
    make: Any, key: bytes | None, number: int
) -> None:
    begun: list[Any] = []

    def begin(*fields: Any) -> bool:
        begun.append(fields)
        return True

    loop = asyncio.get_running_loop()
    fast_path, builder = opened(make, loop, 70, lambda: 7_000_001, begin=begin)
    value = "a value that is longer than the open batch"
    future = fast_path.send("t", value, key, None)
    assert type(future) is asyncio.Future
    assert begun == [(number, "t", 7, key, value.encode(), (), future, 7_000_001, 12.5)]
    assert builder.count == 0


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_record_that_can_begin_no_batch_now_waits(make: Any) -> None:
    waiting: list[Any] = []
    loop = asyncio.get_running_loop()
    fast_path, builder = opened(
        make,
        loop,
        70,
        lambda: 7_000_001,
        begin=lambda *_: None,
        wait=lambda *fields: waiting.append(fields),
    )
    future = fast_path.send("t", bytes(300), b"key", 0)
    assert type(future) is asyncio.Future
    assert waiting == [("t", 0, 7, b"key", bytes(300), (), future, 7_000_001, 12.5)]
    assert builder.count == 0


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_record_that_may_begin_no_batch_takes_the_long_way(make: Any) -> None:
    fast_path, _ = opened(make, asyncio.get_running_loop())
    assert fast_path.send("t", bytes(300), None, None) is None


@pytest.mark.parametrize("make", FAST_PATHS)
@pytest.mark.parametrize("error", [RecordTooLargeError("too large"), KeyError("ours")])
async def test_a_record_that_is_refused_is_tried_once(make: Any, error: Exception) -> None:
    tried: list[Any] = []

    def refuse(*fields: Any) -> None:
        tried.append(fields)
        raise error

    loop = asyncio.get_running_loop()
    for begin, wait in ((refuse, None), (lambda *_: None, refuse)):
        fast_path, _ = opened(make, loop, begin=begin, wait=wait)
        with pytest.raises(type(error), match=str(error.args[0])):
            fast_path.send("t", bytes(300), None, None)
    assert len(tried) == 2


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_nobody_else_comes_in(make: Any) -> None:
    loop = asyncio.get_running_loop()
    fast_path, builder = opened(make, loop)

    def refused() -> bool:
        return not (
            fast_path.serves()
            or fast_path.send("t", b"v", None, None)
            or fast_path.append(object(), "t", b"v", None, None)
        )

    assert await asyncio.to_thread(refused)
    assert fast_path.serves()
    fast_path.close()
    assert refused()
    assert not make[0]().serves()

    other = asyncio.new_event_loop()
    fast_path, builder = opened(make, other)
    assert refused()
    other.close()
    assert builder.count == 0


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_loop_may_have_futures_of_its_own(make: Any) -> None:
    class Own(asyncio.Future[Any]):
        pass

    class Loop(asyncio.SelectorEventLoop):
        def create_future(self) -> asyncio.Future[Any]:
            return Own(loop=self)

    def send() -> None:
        loop = Loop()
        fast_path, _ = opened(make, loop)
        loop.call_soon(lambda: sent.append(fast_path.send("t", b"v", None, None)))
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()

    sent: list[Any] = []
    await asyncio.to_thread(send)
    assert type(sent[0]) is Own


@pytest.mark.parametrize("ends", ["delivered", "failed", "cancelled"])
async def test_futures_do_not_stay(ends: str) -> None:
    """The collector does not look at the compiled fast_path's pending ones; nothing leaks by it."""

    class Witness:
        pass

    async def wait(future: asyncio.Future[Any], witness: Witness) -> None:
        await future

    loop = asyncio.get_running_loop()
    fast_path, builder = opened(FAST_PATHS[1], loop)
    future = fast_path.send("t", b"v", None, None)
    assert not gc.is_tracked(future)
    witness = Witness()
    gone = weakref.ref(witness)
    waiting = asyncio.create_task(wait(future, witness))
    del witness
    await asyncio.sleep(0)
    match ends:
        case "delivered":
            speedups.deliver_records(builder.tokens, builder.runs, "t", 0, 0, -1)
        case "failed":
            speedups.fail_record(future, OSError("no"))
            assert gc.is_tracked(future)
        case "cancelled":
            future.cancel()
    await asyncio.wait([waiting])
    if ends == "failed":
        assert isinstance(waiting.exception(), OSError)
    builder.tokens.clear()
    del waiting, future
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_strings_come_in_as_utf_8_and_others_take_the_long_way(make: Any) -> None:
    fast_path, builder = opened(make, asyncio.get_running_loop())
    assert fast_path.send("t", "wörld", None, None)
    assert fast_path.append(object(), "t", "wörld", None, None)
    records = bytes(builder.records)
    assert records.count("wörld".encode()) == 2
    for value in ("\ud800", bytearray(b"v"), 7):
        assert fast_path.send("t", value, None, None) is None
        assert not fast_path.append(object(), "t", value, None, None)
        assert fast_path.send("t", b"v", value, None) is None
    assert bytes(builder.records) == records


# --- a traced producer ------------------------------------------------------------------------


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_record_takes_it_while_a_decision_not_to_trace_holds(make: Any) -> None:
    fast_path, builder = opened(make, asyncio.get_running_loop())
    context: list[object] = [object()]
    fast_path.trace(lambda: context[0])
    assert fast_path.send("t", b"v", None, None) is None, "nothing is decided"
    fast_path.skip(context[0], 2, ())
    assert fast_path.send("other", b"v", None, None) is None, "which does not count"
    assert fast_path.send("t", b"v", None, None)
    first, context[0] = context[0], object()
    assert fast_path.send("t", b"v", None, None) is None, "another context"
    context[0] = first
    assert fast_path.send("t", b"v", None, None)
    assert fast_path.send("t", b"v", None, None) is None, "the decision is used up"
    fast_path.trace(None)
    assert fast_path.send("t", b"v", None, None)
    assert builder.count == 3


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_the_headers_of_the_context_are_in_each_record(make: Any) -> None:
    fast_path, builder = opened(make, asyncio.get_running_loop())
    context = object()
    fast_path.trace(lambda: context)
    headers = (("traceparent", b"00-1"), ("tracestate", None))
    fast_path.skip(context, 10, list(headers))
    assert fast_path.send("t", b"v", None, None)
    assert fast_path.take_skipped(context) == headers
    assert fast_path.take_skipped(object()) is None
    fast_path.trace(None)
    assert fast_path.send("t", b"w", None, None)
    assert [record[1:] for record in read_records(builder)] == [
        (None, b"v", headers),
        (None, b"w", ()),
    ]


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_records_that_were_taken_count(make: Any) -> None:
    fast_path, _ = opened(make, asyncio.get_running_loop())
    context = object()
    fast_path.trace(lambda: context)
    fast_path.skip(context, 2, ())
    assert fast_path.take_skipped(context) == ()
    assert fast_path.send("t", b"v", None, None)
    assert fast_path.take_skipped(context) is None


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_a_context_that_raises_sends_the_record_the_long_way(make: Any) -> None:
    def context() -> object:
        raise ValueError("no context")

    fast_path, builder = opened(make, asyncio.get_running_loop())
    fast_path.trace(context)
    fast_path.skip(object(), 2, ())
    assert fast_path.send("t", b"v", None, None) is None
    assert builder.count == 0


@pytest.mark.parametrize("make", FAST_PATHS)
async def test_records_are_marked_with_the_time_of_their_send(make: Any) -> None:
    fast_path, builder = opened(make, asyncio.get_running_loop())
    before = time.time_ns()
    fast_path.send("t", b"v", None, None)
    time.sleep(0.001)
    fast_path.append(object(), "t", b"v", None, None)
    (first, at), (second, later) = builder.marks
    assert (first, second) == (0, 1)
    assert before <= at <= later - 1_000_000 <= time.time_ns()
