"""Run aiokafka's tests with its clients and with ours, and compare; see the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Final

import aiokafka  # type: ignore[import-untyped]

from aioproducer.testing.certificates import Authority, kafka_broker_properties
from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.aiokafka_tests.differences import DIFFERENCES, FILES, VERSION
from tests.support.aiokafka_tests.plugin import CERTIFICATES, CLIENT, KAFKA

ROOT: Final = Path(__file__).parents[3]
PASSWORD: Final = "abcdefgh"  # their tests know it
PLUGIN: Final = "tests.support.aiokafka_tests.plugin"
SECONDS_OF_A_RUN: Final = 900.0
SETTINGS: Final = """[pytest]
markers =
    ssl: needs certificates
filterwarnings =
    error
    default:unclosed event loop:ResourceWarning
    default:Unclosed AIOKafkaProducer:ResourceWarning
    default:Unclosed AIOKafkaConsumer:ResourceWarning
"""
"""The settings of their pyproject.toml. A test that fails leaves its producer unclosed, which must
not fail the test after it."""
CONFIG: Final = {
    "num.partitions": 2,
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
}


def checkout() -> Path:
    """The folder of the tests in the checkout that the environment names."""
    named = os.environ.get("AIOKAFKA_TESTS")
    if not named:
        sys.exit(f"AIOKAFKA_TESTS is to name a checkout of aiokafka {VERSION}")
    text = Path(named, "aiokafka", "__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    for what, version in (
        (f"the checkout {named}", found and found[1]),
        ("the installed aiokafka", aiokafka.__version__),
    ):
        if version != VERSION:
            sys.exit(f"the table of differences is about aiokafka {VERSION}; {what} is {version}")
    return Path(named, "tests")


def copied(tests: Path, folder: Path) -> Path:
    """A package with the tests of producers and consumers alone: their conftest.py needs Docker."""
    package = folder / "tests_of_aiokafka"
    package.mkdir()
    for name in ("__init__.py", "_testutil.py", *FILES):
        shutil.copy(tests / name, package / name)
    return package


def write_certificates(authority: Authority, folder: Path) -> None:
    """The files that ``create_ssl_context()`` of their tests reads."""
    client = authority.issue("client")
    (folder / "ca.crt").write_text(authority.pem, "utf-8")
    (folder / "client.crt").write_text(client.chain_pem, "utf-8")
    (folder / "client.key").write_text(client.key_pem(PASSWORD), "utf-8")


def run(client: str, package: Path, environment: dict[str, str]) -> dict[str, str]:
    """The outcome of each test with ``client``, by its name."""
    report = package.parent / f"{client}.xml"
    settings = package.parent / "pytest.ini"
    settings.write_text(SETTINGS, "utf-8")
    plugins = ["-p", PLUGIN, "-p", "no:cacheprovider"]
    options = ["-q", "--tb=short", "-c", str(settings), f"--junitxml={report}", str(package)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        env={**os.environ, **environment, CLIENT: client, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=package.parent,
        timeout=SECONDS_OF_A_RUN,
        capture_output=True,
        text=True,
        check=False,
    )
    log = Path(tempfile.gettempdir(), f"aiokafka-tests-{client}.log")
    log.write_text(done.stdout + done.stderr, "utf-8")
    print(f"{client}: the output of pytest is in {log}")
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[str(case.get("name"))] = min(kinds, default="passed")
    return found


def compare(theirs: dict[str, str], ours: dict[str, str]) -> list[str]:
    """The contradictions between the runs and the table."""
    problems = []
    for name in sorted({*theirs, *ours, *DIFFERENCES}):
        expected, outcome = name in DIFFERENCES, ours.get(name, "missing")
        if outcome != "passed" and not expected:
            problems.append(f"{name}: {outcome} with ours, {theirs.get(name)} with aiokafka's")
        elif outcome == "passed" and expected:
            problems.append(f"{name} passes: take it out of the table")
    return problems


def run_on_kafka(client: str, tests: Path) -> dict[str, str]:
    """The outcomes on a broker of their own: some tests want topics that do not exist yet."""
    authority = Authority()
    properties = kafka_broker_properties(authority.issue("broker"), listener="TLS")
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(config=CONFIG | properties, listeners={"TLS": "SSL"}) as kafka,
    ):
        write_certificates(authority, Path(folder))
        [broker] = kafka.brokers
        _, _, tls_port = kafka.bootstrap_servers_of("TLS").rpartition(":")
        environment = {
            KAFKA: f"{broker.host},{broker.advertised_port},{tls_port},{kafka.version}",
            CERTIFICATES: folder,
            "PYTHONPATH": str(ROOT),
        }
        return run(client, copied(tests, Path(folder)), environment)


def main() -> int:
    """0 if every test passes with ours, or has its reason in the table."""
    tests = checkout()
    clients = ("aiokafka", "aioproducer")
    theirs, ours = (run_on_kafka(client, tests) for client in clients)
    for client, outcomes in zip(clients, (theirs, ours), strict=True):
        counts = Counter(outcomes.values())
        print(f"{client}: " + ", ".join(f"{counts[each]} {each}" for each in sorted(counts)))
    for name, outcome in sorted(theirs.items()):
        if outcome != "passed":
            print(f"  with aiokafka's own: {name}: {outcome}")
    print(f"{len(DIFFERENCES)} tests have a reason in the table")
    problems = compare(theirs, ours)
    for problem in problems:
        print(f"UNEXPECTED: {problem}")
    return 1 if problems or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
