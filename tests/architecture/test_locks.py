"""No call of a producer needs a lock: see ``aioproducer.foundation.runtime.threads``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "aioproducer"

MAKER = "foundation/runtime/threads.py"
SERVERS = {"testing/kafka_cluster/broker_processes.py", "testing/mock_cluster/server.py"}
"""They start and end brokers; no producer calls them."""

LOCKS = {"Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"}
QUEUES = {"LifoQueue", "PriorityQueue", "Queue"}

USERS = {
    "auth/aws_msk_iam.py": "threads that sign for logins",
    "auth/aws_web_identity.py": "threads that ask AWS STS",
    "auth/gssapi.py": "threads that ask the KDC",
    "auth/tls.py": "threads that read certificates",
    "observability/live/__init__.py": "the threads that draw the view",
    "observability/otel/metrics.py": "OpenTelemetry's threads, as they read metrics",
    "observability/prometheus.py": "the start of an answer to other processes",
    "observability/watched.py": "threads that read metrics",
    "schema_registry/schema_deserializer.py": "consumers' threads, as they begin or end the loop's",
    "spark/producer_pool.py": "Spark's threads, as they begin or end a producer",
    "spark/schemas.py": "Spark's threads, as they look a registry up",
    "testing/mock_cluster/process.py": "a test that sends a command to the mock cluster",
}
"""The files that use a lock, and those who take it. No event loop of a producer is among them."""


def sources() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def names_from(tree: ast.AST, module: str) -> set[str]:
    """The names of ``module`` that a file uses."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names |= {node.attr} if node.value.id == module.rpartition(".")[2] else set()
    return names


def test_locks_are_made_in_one_place() -> None:
    found = {
        (file, name)
        for file, tree in sources()
        for name in (names_from(tree, "threading") & LOCKS) | (names_from(tree, "queue") & QUEUES)
        if file not in SERVERS
    }
    assert found == {(MAKER, "RLock")}, (
        "read the module docstring of aioproducer/foundation/runtime/threads.py"
    )


def test_every_lock_is_known_with_those_who_take_it() -> None:
    users = {
        file
        for file, tree in sources()
        if "free_lock" in names_from(tree, "aioproducer.foundation.runtime.threads")
    }
    assert users == set(USERS), (
        "read the module docstring of aioproducer/foundation/runtime/threads.py"
    )
