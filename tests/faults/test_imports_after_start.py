"""Nothing is imported after a client's start, so no change of files and no missing descriptor later
on can break it."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

import aioproducer
from aioproducer.testing.certificates import Authority
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.support import lives
from tests.support.fake_kafka import FakeKafka
from tests.support.fake_kafka.telemetry import FakeTelemetry
from tests.support.served_kafka import ServedKafka, serve
from tests.support.waiting import until

LONGEST: Final = 60.0


class Place:
    """A folder from which programs import the package, and an authority of certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "aioproducer"
        self.authority = Authority()
        self.package.symlink_to(Path(aioproducer.__file__).parent)
        (folder / "authority.pem").write_text(self.authority.pem)

    async def live(self, life: str, way: str) -> list[str]:
        """The lines of the program."""
        if life == "report":
            return await self._live_with_telemetry(life, way)
        tls = None
        options = ClusterOptions(group_initial_rebalance_delay_ms=0)
        if life == "log in":
            tls = self.authority.issue("broker").server_context()
            options = ClusterOptions(credentials={"alice": "secret"}, session_lifetime_ms=500)
        async with ServedKafka(options, tls) as kafka:
            for topic, partitions in {lives.TOPIC: 2, "dead": 1, "copy": 2}.items():
                kafka.model.create_topic(topic, partitions)
            return await self._run(life, way, kafka.bootstrap_servers, kafka.orders)

    async def _live_with_telemetry(self, life: str, way: str) -> list[str]:
        telemetry = FakeTelemetry()
        kafka = FakeKafka(1, {lives.TOPIC: 2}, telemetry=telemetry)

        async def pushed() -> None:
            await until(lambda: bool(telemetry.pushes), "a push")

        async def cut() -> None:
            await kafka.stop()
            await kafka.start()

        await kafka.start()
        try:
            orders = {"pushed": pushed, "cut": cut}
            return await self._run(life, way, kafka.bootstrap_servers, orders)
        finally:
            await kafka.stop()

    async def _run(
        self,
        life: str,
        way: str,
        servers: str,
        orders: Mapping[str, Callable[..., Awaitable[None]]],
    ) -> list[str]:
        said, _ = await serve(
            [sys.executable, lives.__file__, life, way, servers, str(self.package)],
            orders=orders,
            cwd=self.folder,
            environment={
                **os.environ,
                "PYTHONPATH": str(self.folder),
                "PYTHONSAFEPATH": "1",
                "TRUSTSTORE": str(self.folder / "authority.pem"),
            },
            timeout=LONGEST,
        )
        return said


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize("life", lives.LIVES)
async def test_a_life_without_the_package_and_without_descriptors(life: str, place: Place) -> None:
    try:
        assert await place.live(life, "troubled") == ["lived"]
    finally:
        if (gone := place.folder / "aioproducer-gone").exists():
            gone.rename(place.package)
