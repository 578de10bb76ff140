"""When a task of the producer ends in an error, everybody who waits is told, and nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from aioproducer import Producer, ProducerBrokenError, ProducerClosedError
from aioproducer.engine.accumulator.memory_quota import MemoryQuota
from aioproducer.engine.accumulator.partition import Backlog
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.sender.batch_sender import BatchSender
from aioproducer.engine.sender.completer import BatchCompleter
from aioproducer.engine.sender.refresher import MetadataRefresher
from aioproducer.engine.sender.sender import Sender
from tests.support.inside import all_tasks, hidden_tasks

if TYPE_CHECKING:
    from tests.faults.conftest import StartKafka
    from tests.support.fake_kafka import FakeKafka

PRODUCE, METADATA, END_TXN = 0, 3, 26
PATIENCE = 60.0


def explode(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


PLACES = {
    "sender": (MetadataRefresher, "step"),
    "rounds": (Sender, "_next_round"),
    "responses": (Sender, "_take_completed"),
    "way out": (BatchSender, "step"),
    "outcomes": (BatchCompleter, "complete"),
    "admission": (MemoryQuota, "grant"),
    "reader": (ProducerMetrics, "response_received"),
    "drain of a batch": (Backlog, "take"),
}
COMPILED = (Backlog, BatchCompleter, BatchSender, MemoryQuota, ProducerMetrics, Sender)
SOURCE = pytest.mark.source_form


@pytest.mark.parametrize(
    ("place", "name"),
    [
        pytest.param(place, name, id=each, marks=SOURCE if place in COMPILED else ())
        for each, (place, name) in PLACES.items()
    ],
)
async def test_everybody_who_waits_is_told(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, place: type, name: str
) -> None:
    producer = Producer(
        bootstrap_servers=kafka.bootstrap_servers, buffer_memory=8_000, batch_size=1_000
    )
    await producer.start()
    await producer.send("orders", b"fine")
    gate = asyncio.Event()
    kafka.answers.extend([kafka.Answer(hold=gate)] * 5)
    futures = [producer.send("orders", bytes(900)) for _ in range(7)]
    unknown = producer.send("unknown", b"v")
    waits = [
        asyncio.create_task(call)
        for call in (
            producer.drain(),
            producer.flush(),
            producer.send_many("orders", [b"v"] * 2),
            producer.partitions_for("unknown"),
        )
    ]
    await kafka.until_received(PRODUCE, 2)
    is_property = isinstance(getattr(place, name), property)
    monkeypatch.setattr(place, name, property(explode) if is_property else explode)
    gate.set()
    results = await asyncio.wait_for(
        asyncio.gather(*futures, unknown, *waits, return_exceptions=True), PATIENCE
    )
    monkeypatch.undo()
    broken = [each for each in results if isinstance(each, ProducerBrokenError)]
    assert broken
    assert results[-1] in broken
    assert all(isinstance(error.__cause__, ZeroDivisionError) for error in broken)
    # what was answered before is delivered; nothing has any other error
    for result in results[:8]:
        assert not isinstance(result, Exception) or isinstance(result, ProducerBrokenError)
    assert repr(producer).endswith("broken>")
    with pytest.raises(ProducerBrokenError, match=r"ZeroDivisionError: a bug.*make a new one"):
        producer.send("orders", b"v")
    for call in (producer.flush, producer.drain, lambda: producer.send_many("orders", [b"v"])):
        with pytest.raises(ProducerBrokenError):
            await asyncio.wait_for(call(), PATIENCE)
    await asyncio.wait_for(producer.close(), PATIENCE)
    await asyncio.wait_for(producer.close(), PATIENCE)


async def test_ten_thousand_waiting_tasks_are_told(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.mute.add(PRODUCE)
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()

    async def wait() -> None:
        await producer.send("orders", b"v")

    tasks = [asyncio.create_task(wait()) for _ in range(10_000)]
    await kafka.until_received(PRODUCE)
    monkeypatch.setattr(MetadataRefresher, "step", explode)
    await kafka.servers[1].cut()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
    assert {type(each) for each in results} == {ProducerBrokenError}
    monkeypatch.undo()
    await producer.close()


async def test_a_task_that_somebody_else_cancels(kafka: FakeKafka) -> None:
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    kafka.mute.add(PRODUCE)
    future = producer.send("orders", b"v")
    await kafka.until_received(PRODUCE)
    (sender,) = (task for task in hidden_tasks() if task.get_name() == "aioproducer-sender")
    sender.cancel()
    with pytest.raises(ProducerBrokenError, match=r"aioproducer-sender.*cancelled"):
        await asyncio.wait_for(future, PATIENCE)
    await asyncio.wait_for(producer.close(), PATIENCE)


ENDS_OF_RUNS = """
    import asyncio, logging, os, signal, sys
    import anyio
    from aioproducer import Producer

    _, SERVERS, LOOP, *SCENARIOS = sys.argv
    VALUES = [b"%d" % number for number in range(500)]

    def new():
        options = {"transactional_id": "t"} if SCENARIO == "transact" else {}
        if SCENARIO.startswith("dead"):
            options = {"delivery_timeout_ms": 600, "request_timeout_ms": 500, "max_block_ms": 400}
        return Producer(bootstrap_servers=SERVERS, **options)

    def send(producer, values=VALUES):
        for value in values:
            producer.send(SCENARIO, value)
        asyncio.get_running_loop().call_soon(sent.set)  # when the caller waits

    async def use():
        async with new() as producer:
            send(producer)
            await asyncio.sleep(3600)

    async def use_late():
        "The user's own last words need the producer, too."
        async with new() as producer:
            try:
                send(producer, VALUES[:250])
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.2)
                send(producer, VALUES[250:])

    async def use_in_groups():
        async with new() as producer, asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(3600))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(asyncio.sleep(3600))
                send(producer)

    async def use_in_scopes():
        "anyio cancels again at each await."
        async with anyio.create_task_group() as group:
            group.start_soon(use)
            await sent.wait()
            group.cancel_scope.cancel()

    async def close():
        producer = new()
        await producer.start()
        send(producer)
        assert await producer.close() == 0

    async def transact():
        async with new() as producer:
            async with producer.transaction():
                producer.send(SCENARIO, b"0")
                await producer.flush()
                send(producer, VALUES[1:])
                await asyncio.sleep(3600)

    async def forget():
        producer = new()
        await producer.start()
        send(producer)

    async def cancel_all():
        "As many programs do at a signal. One of the two producers has just begun."
        asyncio.create_task(use())
        await sent.wait()
        await forget()
        tasks = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def cancel_all_in_the_end():
        "The task that was cancelled, or one that it awaits, waits for all others that it cancels."
        async def cancel_others(main):
            tasks = asyncio.all_tasks() - {main, asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        await forget()
        await sent.wait()
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)
        finally:
            await asyncio.create_task(cancel_others(asyncio.current_task()))

    async def main():
        global sent
        sent = asyncio.Event()
        if SCENARIO.startswith("cancel_all") or SCENARIO in (
            "forget", "dead_and_forgotten", "use_in_scopes"
        ):
            return await globals().get(SCENARIO, forget)()
        background = asyncio.create_task(globals().get(SCENARIO, use)())
        await sent.wait()
        if SCENARIO == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(3600)
        if SCENARIO == "exits":
            sys.exit(3)

    factory = None
    if LOOP == "uvloop":
        import uvloop
        factory = uvloop.new_event_loop
    for SCENARIO in SCENARIOS:
        logging.basicConfig(format=f"{SCENARIO}: %(message)s", level=logging.ERROR, force=True)
        try:
            with asyncio.Runner(loop_factory=factory) as runner:
                runner.run(main())
        except (KeyboardInterrupt, SystemExit) as end:
            print(type(end).__name__)
    print("done")
"""
SCENARIOS = [
    "use",
    "use_late",
    "use_in_groups",
    "use_in_scopes",
    "close",
    "forget",
    "cancel_all",
    "cancel_all_in_the_end",
    "interrupted",
    "exits",
    "transact",
]


async def ended(program: str, *arguments: str) -> tuple[int, str, str]:
    """The return code of a Python program, and what it has printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(program),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode is not None
    return process.returncode, printed.decode(), said.decode()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_the_end_of_a_run_gives_up_no_record(start_kafka: StartKafka, loop: str) -> None:
    pytest.importorskip("anyio")
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    kafka = await start_kafka(1, dict.fromkeys(SCENARIOS, 1))
    code, printed, said = await ended(ENDS_OF_RUNS, kafka.bootstrap_servers, loop, *SCENARIOS)
    assert said == ""
    assert (code, printed.split()) == (0, [*["KeyboardInterrupt"] * 2, "SystemExit", "done"])
    wanted = Counter(b"%d" % number for number in range(500))
    found = {each: Counter(kafka.values(each)) for each in SCENARIOS}
    of_two = wanted + wanted
    assert found == {each: of_two if each == "cancel_all" else wanted for each in SCENARIOS}
    assert [each.body.committed for each in kafka.requests(END_TXN)] == [False]


async def test_a_close_after_the_end_of_the_run_can_be_cancelled(kafka: FakeKafka) -> None:
    """On Python 3.11, ``wait_for()`` runs it in a task that it cancels."""
    producer = Producer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    kafka.mute.add(PRODUCE)
    record = producer.send("orders", b"v")
    await kafka.until_received(PRODUCE)
    name = "aioproducer-close-with-loop"
    (watch,) = (each for each in asyncio.all_tasks() if each.get_name() == name)

    async def use() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait([closing])

    using = asyncio.create_task(use())
    await asyncio.sleep(0)
    for task in (using, watch):  # asyncio.run() cancels them outside of any task as well
        asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.wait_for(asyncio.wait([using, watch]), PATIENCE)
    assert isinstance(record.exception(), ProducerClosedError)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_the_end_of_a_run_is_bounded_without_brokers(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    scenarios = ["dead", "dead_and_forgotten"]
    code, printed, said = await ended(ENDS_OF_RUNS, "127.0.0.1:1", loop, *scenarios)
    assert (code, printed.split()) == (0, ["done"])
    for each in scenarios:  # they are told of, and nobody else complains
        assert f"{each}: " in said
    for complaint in ("never retrieved", "destroyed", "Traceback", "is broken"):
        assert complaint not in said


SCRIPT = """
    import asyncio, gc, sys, warnings
    from aioproducer import Producer, ProducerError

    async def closed(servers):
        async with Producer(bootstrap_servers=servers, max_block_ms=50) as producer:
            producer.send("orders", b"forgotten")
            try:
                await producer.send("orders", b"v")
            except ProducerError as error:
                print(type(error).__name__)

    async def given_up(servers):
        producer = Producer(bootstrap_servers=servers)
        await producer.start()
        producer.send("orders", b"v")
        await asyncio.sleep(0.01)
        await producer.close(0)

    warnings.simplefilter("error")
    for scenario in (closed, given_up):
        asyncio.run(scenario("127.0.0.1:1"), debug=True)
        gc.collect()
    print("done")
"""


def test_no_resource_warning_and_no_complaint_of_asyncio() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["BootstrapError", "done"]
    for complaint in ("Warning", "never retrieved", "never awaited", "Traceback", "destroyed"):
        assert complaint not in done.stderr


async def test_garbage_is_not_left_behind(kafka: FakeKafka) -> None:
    before = all_tasks()
    others = [each for each in gc.get_objects() if type(each) is Producer]
    for _ in range(5):
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send_many("orders", [b"v"] * 100)
    del producer
    await kafka.servers[1].cut()
    assert all_tasks() == before
    gc.collect()
    left = [each for each in gc.get_objects() if type(each) is Producer]
    assert all(any(each is other for other in others) for each in left)
