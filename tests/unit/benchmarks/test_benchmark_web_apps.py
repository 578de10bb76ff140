"""The applications of the web workload answer alike, each in its server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import psutil  # type: ignore[import-untyped]
import pytest

from aioproducer.errors import MissingExtraError
from aioproducer.testing.mock_cluster import MockCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.brokers import log_size
from benchmarks.web.plan import CLIENTS, FRAMEWORKS, NULL, OURS, PARTITIONS, TOPIC, App
from benchmarks.web.run import serve

pytestmark = pytest.mark.mock_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    try:
        with MockCluster(brokers=3, topics={TOPIC: PARTITIONS}) as cluster:
            yield cluster
    except MissingExtraError as error:
        if os.environ.get("AIOPRODUCER_REQUIRE_KAFKA") == "1":
            pytest.fail(f"AIOPRODUCER_REQUIRE_KAFKA=1, but {error}")
        pytest.skip(f"NOT TESTED: {error}")


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessSupervisor]:
    with ProcessSupervisor() as processes:
        yield processes


@pytest.mark.parametrize(
    ("framework", "client"),
    [
        *((framework, OURS) for framework in FRAMEWORKS),
        *(("starlette", client) for client in (NULL, *CLIENTS) if client != OURS),
    ],
)
def test_an_application_answers_with_the_place_of_the_record(
    framework: str, client: str, cluster: MockCluster, processes: ProcessSupervisor
) -> None:
    before = log_size(cluster.bootstrap_servers, [TOPIC], PARTITIONS)
    with serve(App(framework, client), processes, cluster.bootstrap_servers) as (url, server):
        answer = httpx.post(f"{url}orders/anna", json={"article": 7})
        assert answer.status_code == 201
        assert answer.json().keys() == {"partition", "offset"}
    assert not psutil.pid_exists(server.pid)
    sent = log_size(cluster.bootstrap_servers, [TOPIC], PARTITIONS) - before
    assert sent == (0 if client == NULL else 1)
