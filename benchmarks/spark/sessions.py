"""Spark sessions on this machine alone, with this Python: for benchmarks and tests."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from aioproducer.testing.kafka_distribution import cached_folder

ROOT: Final = Path(__file__).parents[2]
INSTALLED: Final = Path(pyspark.__file__).parent
"""PySpark's folder, as users have it."""

SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "FATAL",
}


def environment(spark_home: Path | None = None) -> dict[str, str]:
    """That of this process, with what Spark's JVM and its Python workers need.

    ``spark_home``: in place of :func:`home`.
    """
    paths = (str(ROOT), os.environ.get("PYTHONPATH"))
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_home or home()),
    }


def home() -> Path:
    """PySpark's folder, but for the archive that has its Python part once more.

    Each kind of Python worker would compile what it imports from there, at each start; what is
    installed is compiled already.
    """
    place = hashlib.sha256(str(INSTALLED).encode()).hexdigest()[:8]
    name = f"spark-home-{pyspark.__version__}-{place}"

    def link(folder: Path) -> None:
        for entry in INSTALLED.iterdir():
            if entry.name != "python":
                (folder / entry.name).symlink_to(entry)
        (folder / "python" / "lib").mkdir(parents=True)
        for archive in (INSTALLED / "python" / "lib").glob("py4j-*"):
            (folder / "python" / "lib" / archive.name).symlink_to(archive)

    return cached_folder(name, link)


def start(
    master: str = "local[2]",
    settings: Mapping[str, str] = MappingProxyType({}),
    spark_home: Path | None = None,
) -> SparkSession:
    """A session, with ``settings`` over those that are set here."""
    os.environ.update(environment(spark_home))
    builder = SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
