"""The fixtures of the plugin of pytest with a real Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioproducer.testing.kafka_distribution import KafkaDistribution
from tests.support.pytest_project import run_pytest

pytestmark = pytest.mark.kafka


def test_a_cluster_for_the_session_and_topics_for_tests(
    tmp_path: Path, kafka_distribution: KafkaDistribution
) -> None:
    files = {
        "test_it.py": """
            import pytest
            from aioproducer import Producer
            from aioproducer.testing import KafkaCluster, expect

            async def test_a_record(kafka_cluster: KafkaCluster, kafka_topic: str):
                servers = kafka_cluster.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    await producer.send(kafka_topic, b"one espresso")
                await expect(kafka_topic, bootstrap_servers=servers).has_exactly([b"one espresso"])

            @pytest.mark.kafka_topic(partitions=3)
            async def test_a_transaction(kafka_cluster, kafka_topic, new_kafka_topic):
                other = new_kafka_topic(config={"cleanup.policy": "compact"})
                async with Producer(
                    bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="a"
                ) as producer:
                    assert len(await producer.partitions_for(kafka_topic)) == 3
                    async with producer.transaction():
                        await producer.send(other, b"v", key=b"k")
        """,
    }
    run = run_pytest(
        tmp_path,
        files,
        "--asyncio-mode=auto",
        plugins=("pytest_aioproducer", "pytest_asyncio.plugin"),
    )
    assert run.outcomes == {"passed": 2}, run.output
