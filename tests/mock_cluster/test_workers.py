"""Real programs with worker processes: each worker's producer delivers, and no process hangs."""

from __future__ import annotations

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

import httpx
import pytest

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
