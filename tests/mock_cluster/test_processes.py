"""Several processes: programs with workers, and forks beside running producers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from aioproducer.testing import read_back_sync
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor
from tests.support.read_back import values
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "workers"
PATIENCE = 60.0


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        yield cluster


@pytest.fixture
def processes() -> Iterator[ProcessSupervisor]:
    with ProcessSupervisor() as supervisor:
        yield supervisor


def environment(cluster: MockCluster, **more: str) -> dict[str, str]:
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return os.environ | {
        "BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "PYTHONPATH": path,
        "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of Python 3.12: threads and fork
        **more,
    }


# --- gunicorn ------------------------------------------------------------------------------------


@contextmanager
def gunicorn(
    cluster: MockCluster, processes: ProcessSupervisor, log: Path, arguments: Sequence[str]
) -> Iterator[tuple[httpx.Client, int]]:
    """A client of gunicorn, and the process id of gunicorn's master."""
    [port] = free_ports(1)
    with log.open("wb") as output:
        master = processes.start(
            [
                *(sys.executable, "-m", "gunicorn", "--chdir", str(EXAMPLES)),
                *("--bind", f"127.0.0.1:{port}", "--no-control-socket", *arguments),
            ],
            env=environment(cluster),
            stdout=output,
            stderr=output,
        )
        transport = httpx.HTTPTransport(retries=0)
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=PATIENCE, transport=transport) as client:
            yield client, master.pid
        master.terminate()
        assert master.wait(PATIENCE) == 0, log.read_text()
    text = log.read_text()
    assert "Traceback" not in text, text


def order(client: httpx.Client, body: bytes) -> int:
    """Send an order; the process id of the worker that took it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline
        try:
            answer = client.post("/", content=body, headers={"connection": "close"})
        except httpx.TransportError:
            time.sleep(0.05)  # it starts, or a worker has ended
            continue
        assert answer.status_code == 201, answer.text
        worker: int = answer.json()["worker"]
        return worker


def orders_until(client: httpx.Client, workers: int) -> Counter[int]:
    """Send orders until ``workers`` workers have taken some; the orders of each."""
    taken: Counter[int] = Counter()
    while len(taken) < workers:
        taken[order(client, b"order")] += 1
    return taken


def test_gunicorn_with_a_wsgi_application(
    cluster: MockCluster, processes: ProcessSupervisor, tmp_path: Path
) -> None:
    """Workers are recycled (max_requests) and killed; each new one has a producer of its own."""
    arguments = ["--preload", "-c", str(EXAMPLES / "gunicorn_conf.py"), "wsgi_app:app"]
    with gunicorn(cluster, processes, tmp_path / "log", ["--max-requests", "8", *arguments]) as (
        client,
        master,
    ):
        taken = orders_until(client, 2)
        assert master not in taken
        # The last worker to appear has taken one order, so it lives; the first may be recycled.
        [*_, newest] = taken
        os.kill(newest, signal.SIGKILL)
        while len(taken) < 4:
            taken[order(client, b"order")] += 1
    assert len(values(cluster, "orders")) == taken.total()


def test_gunicorn_with_an_asgi_application(
    cluster: MockCluster, processes: ProcessSupervisor, tmp_path: Path
) -> None:
    arguments = ["--preload", "-k", "asgi", "-w", "2", "asgi_app:app"]
    with gunicorn(cluster, processes, tmp_path / "log", arguments) as (client, master):
        taken = orders_until(client, 2)
        assert master not in taken
    assert len(values(cluster, "orders")) == taken.total()


# --- Celery --------------------------------------------------------------------------------------

CELERY_CONFIG = """
    broker_url = "filesystem://"
    broker_transport_options = {{
        "data_folder_in": {folder!r},
        "data_folder_out": {folder!r},
        "control_folder": {folder!r},
        "polling_interval": 0.05,
        "store_processed": False,
    }}
    result_backend = "file://" + {folder!r}
    worker_hijack_root_logger = False
"""

ASK = """
    import sys
    sys.path.insert(0, sys.argv[1])
    from celery_app import publish

    answers = [publish.delay(f"order {n}") for n in range(20)]
    print(*{answer.get(timeout=50)["process"] for answer in answers})
"""


@pytest.mark.parametrize(
    "pool", ["prefork", pytest.param("solo", marks=pytest.mark.soak), "threads"]
)
def test_celery(
    cluster: MockCluster, processes: ProcessSupervisor, tmp_path: Path, pool: str
) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    config = textwrap.dedent(CELERY_CONFIG).format(folder=str(folder))
    (tmp_path / "celeryconfig.py").write_text(config)
    given = environment(cluster, CELERY_CONFIG_MODULE="celeryconfig")
    given["PYTHONPATH"] = os.pathsep.join([str(tmp_path), given["PYTHONPATH"]])
    log = tmp_path / "log"
    with log.open("wb") as output:
        asking = processes.start(
            [sys.executable, "-c", textwrap.dedent(ASK), str(EXAMPLES)],
            env=given,
            stdout=subprocess.PIPE,
            stderr=output,
        )
        # The worker reads a file that the first task writes, and may find it half written.
        wait_until(lambda: len([*folder.glob("*.msg")]) == 20, "twenty tasks", PATIENCE)
        worker = processes.start(
            [
                *(sys.executable, "-m", "celery", "--workdir", str(EXAMPLES), "-A", "celery_app"),
                *("worker", "--pool", pool, "--concurrency", "2", "--loglevel", "WARNING"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ],
            env=given | {"C_FORCE_ROOT": "1"},
            stdout=output,
            stderr=output,
            cwd=tmp_path,
        )
        answers, _ = asking.communicate(timeout=PATIENCE)
        assert asking.returncode == 0, log.read_text()
        worker.terminate()
        assert worker.wait(PATIENCE) == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()
    assert (str(worker.pid) in answers.decode().split()) == (pool != "prefork")
    assert sorted(map(str, values(cluster, "orders"))) == sorted(
        str(b"order %d" % n) for n in range(20)
    )


# --- processes of Python itself ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes(cluster: MockCluster, method: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "process_pool.py", method],
        env=environment(cluster),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "200 orders delivered\n"
    found = Counter(values(cluster, "orders"))
    assert found == {b"order %d-%d" % (batch, n): 1 for batch in range(20) for n in range(10)}


ENDS = """
    import multiprocessing, os, sys
    from aioproducer import ProducerConfig
    from aioproducer.sync import Producer

    def work(config, number):
        producer = Producer(config)
        producer.start()
        producer.send("orders", b"%d" % number)  # nobody waits for it, and nobody closes

    if __name__ == "__main__":
        config = ProducerConfig(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"], linger_ms=200)
        children = [
            multiprocessing.get_context(method).Process(target=work, args=(config, number))
            for number, method in enumerate(("fork", "spawn", "forkserver"))
        ]
        for child in children:
            child.start()
        for child in children:
            child.join()
        sys.exit(any(child.exitcode for child in children))
"""


def test_the_exit_of_a_worker_delivers_what_is_buffered(
    cluster: MockCluster, tmp_path: Path
) -> None:
    """multiprocessing ends forked processes without atexit: the records were lost."""
    script = tmp_path / "ends.py"
    script.write_text(textwrap.dedent(ENDS))
    done = subprocess.run(
        [sys.executable, script],
        env=environment(cluster),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Counter(values(cluster, "orders")) == {b"0": 1, b"1": 1, b"2": 1}


# --- Airflow -------------------------------------------------------------------------------------

SUPERVISOR = """
    import os, runpy, sys, types

    tasks = []

    def task(**_):
        return lambda function: lambda *given: tasks.append((function, given))

    def dag(**_):
        return lambda function: function

    sdk = types.ModuleType("airflow.sdk")
    sdk.dag, sdk.task = dag, task
    sys.modules |= {"airflow": types.ModuleType("airflow"), "airflow.sdk": sdk}

    runpy.run_path(sys.argv[1])
    [(function, given)] = tasks
    for _ in range(2):  # the task and its next run
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if function(*given) == 100 else 2
            finally:
                sys.stdout.flush()
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
"""


def test_a_task_in_a_forked_process_without_an_exit(cluster: MockCluster) -> None:
    """Airflow's supervisor forks the process of a task, which ends by `os._exit()`."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SUPERVISOR), EXAMPLES / "airflow_dag.py"],
        env=environment(cluster),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Counter(values(cluster, "orders")) == {b"order %d" % n: 2 for n in range(100)}


def test_the_page_names_the_examples() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "how-to" / "workers.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`(\w+\.py)`", "\n".join(rows)))
    assert named == {path.name for path in EXAMPLES.glob("*.py")}


PRELUDE = """
    import asyncio, json, os, signal, sys, threading, time, warnings
    from aioproducer import Producer, sync
    from aioproducer.errors import WrongLoopError

    warnings.simplefilter("ignore", DeprecationWarning)
    servers, topic, how = sys.argv[1:]
    quick = dict(bootstrap_servers=servers, linger_ms=300)

    def forked():
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a child that hangs ends by it, and the parent tells
        return child

    def ended(child, options=0):
        pid, status = os.waitpid(child, options)
        return os.waitstatus_to_exitcode(status) if pid else None
"""


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as shared_cluster:
        yield shared_cluster


def run(shared_cluster: MockCluster, script: str, topic: str, how: str = "") -> Any:
    """What the script prints last, as JSON. It is silent otherwise."""
    shared_cluster.create_topic(topic, 1)
    done = subprocess.run(
        [
            *(sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(script)),
            *(shared_cluster.bootstrap_servers, topic, how),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


IN_A_COROUTINE = """
    async def main():
        codes, told = [], []
        async with Producer(**quick) as producer:
            await producer.send(topic, b"before")
            for end in ("leave", "exit", "go on"):
                pending = [producer.send(topic, f"{end} {n}".encode()) for n in range(5)]
                child = forked()
                if child == 0:
                    if end == "go on":  # with the copy of the parent's event loop
                        for _ in range(1000):
                            await asyncio.sleep(0)
                        time.sleep(0.4)
                        for _ in range(1000):
                            await asyncio.sleep(0)
                        os._exit(0)
                    if end == "exit":
                        sys.exit(0)
                    break
                while (code := ended(child, os.WNOHANG)) is None:
                    await asyncio.sleep(0.01)
                codes.append(code)
                await asyncio.gather(*pending)
            else:
                metrics = producer.metrics()["producer-metrics"]
                print(json.dumps([codes, metrics["connection-close-total"]]))

    if how == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_child_of_a_coroutine_sends_nothing_of_its_parent(
    shared_cluster: MockCluster, loop: str
) -> None:
    """It had sent the records that were buffered, a second time, and cut the connection."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    topic = f"forks-coroutine-{loop}"
    assert run(shared_cluster, IN_A_COROUTINE, topic, loop) == [[0, 0, 0], 0]
    sent = [
        b"before",
        *(b"%s %d" % (e, n) for e in (b"leave", b"exit", b"go on") for n in range(5)),
    ]
    assert values(shared_cluster, topic) == sent


BLOCKING = """
    def child_of(producer, future):
        told = 0
        for call in (
            lambda: producer.send(topic, b"child"),
            lambda: producer.send_many(topic, [b"child"]),
            producer.flush, producer.close, producer.start, producer.metrics, future.result,
            lambda: producer.partitions_for(topic),
        ):
            try:
                call()
            except WrongLoopError as error:
                told += "after the fork: in gunicorn's post_worker_init" in str(error)
        print(json.dumps(told), file=sys.stderr if told < 8 else sys.stdout, flush=True)

    with sync.Producer(**quick) as producer:
        producer.send(topic, b"before").result(10)
        future = producer.send(topic, b"buffered")
        child = forked()
        if child == 0:
            child_of(producer, future)
            sys.exit(0)  # leaves the block, and the interpreter
        assert ended(child) == 0
        child = forked()
        if child == 0:
            with sync.Producer(bootstrap_servers=servers) as own:
                own.send(topic, b"own").result(10)
            producer.__exit__(None, None, None)
            os._exit(0)
        future.result(10)
        assert ended(child) == 0
        closed = producer.metrics()["producer-metrics"]["connection-close-total"]
        assert closed == 0, closed
"""


def test_a_child_beside_a_blocking_producer(shared_cluster: MockCluster) -> None:
    assert run(shared_cluster, BLOCKING, "forks-blocking") == 8
    assert Counter(values(shared_cluster, "forks-blocking")) == Counter(
        [b"before", b"buffered", b"own"]
    )


WHILE_THREADS_SEND = """
    CHILDREN, THREADS = 12, 3
    counts = [0] * THREADS
    stopped = threading.Event()

    def send(number):
        while not stopped.is_set():
            producer.send(topic, b"parent")
            counts[number] += 1
            if counts[number] % 500 == 0:
                producer.flush()

    with sync.Producer(bootstrap_servers=servers) as producer:
        threads = [threading.Thread(target=send, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(CHILDREN):
            child = forked()
            if child == 0:
                try:
                    producer.send(topic, b"child")
                except WrongLoopError:
                    with sync.Producer(bootstrap_servers=servers) as own:
                        own.send(topic, b"child").result(20)
                    os._exit(0)
                os._exit(1)
            children.append(child)
        codes = [ended(child) for child in children]
        stopped.set()
        for thread in threads:
            thread.join()
    print(json.dumps([codes, sum(counts)]))
"""


def test_forks_while_other_threads_send(shared_cluster: MockCluster) -> None:
    codes, sent = run(shared_cluster, WHILE_THREADS_SEND, "forks-threads")
    assert codes == [0] * 12
    assert Counter(values(shared_cluster, "forks-threads")) == {b"parent": sent, b"child": 12}


IN_A_TRANSACTION = """
    async def main():
        async with Producer(**quick, transactional_id=topic) as producer:
            for end in ("raise", "leave"):
                child = 0
                try:
                    async with producer.transaction():
                        await producer.send(topic, b"parent")
                        child = forked()
                        if child == 0 and end == "raise":
                            raise KeyError("its own")
                    if child == 0:
                        os._exit(1)
                except KeyError:
                    os._exit(7)
                except WrongLoopError:
                    os._exit(8)
                while (code := ended(child, os.WNOHANG)) is None:
                    await asyncio.sleep(0.01)
                yield_codes.append(code)

    def blocking():
        with sync.Producer(**quick, transactional_id=topic + "-sync") as producer:
            for end in ("raise", "leave"):
                child = 0
                try:
                    with producer.transaction():
                        producer.send(topic, b"parent").result(10)
                        child = forked()
                        if child == 0 and end == "raise":
                            raise KeyError("its own")
                except KeyError:
                    os._exit(7)
                except WrongLoopError:
                    os._exit(8)
                yield_codes.append(ended(child))

    yield_codes = []
    asyncio.run(main())
    blocking()
    print(json.dumps(yield_codes))
"""


def test_a_child_ends_no_transaction_of_its_parent(shared_cluster: MockCluster) -> None:
    """Its own error passes; a block that it leaves as if it committed raises."""
    assert run(shared_cluster, IN_A_TRANSACTION, "forks-transaction") == [7, 8, 7, 8]
    records = read_back_sync(
        "forks-transaction", bootstrap_servers=shared_cluster.bootstrap_servers
    )
    assert [record.value for record in records] == [b"parent"] * 4


STARTED_IN_THE_CHILD = """
    producer = sync.Producer(**quick)
    try:
        producer.send(topic, b"too early")
    except RuntimeError as error:
        assert "was not started" in str(error)
    children = []
    for number in range(3):
        child = forked()
        if child == 0:
            producer.start()
            producer.send(topic, b"%d" % number)
            sys.exit(0)  # closes it
        children.append(child)
    print(json.dumps([ended(child) for child in children]))
"""


def test_each_child_may_start_what_the_parent_only_made(shared_cluster: MockCluster) -> None:
    assert run(shared_cluster, STARTED_IN_THE_CHILD, "forks-started") == [0, 0, 0]
    assert sorted(values(shared_cluster, "forks-started")) == [b"0", b"1", b"2"]  # type: ignore[type-var]
