"""Spark sessions on this machine alone, with this Python: for benchmarks and tests."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from aioproducer.testing.kafka_distribution import cached_folder

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """What Spark's JVM and its Python workers need of the environment."""
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home()),
    }


def home() -> Path:
    """PySpark's folder, but for the archive that has its Python part once more.

    Each kind of Python worker would compile what it imports from there, at each start; what is
    installed is compiled already.
    """
    installed = Path(pyspark.__file__).parent
    place = hashlib.sha256(str(installed).encode()).hexdigest()[:8]
    name = f"spark-home-{pyspark.__version__}-{place}"

    def link(folder: Path) -> None:
        for entry in installed.iterdir():
            if entry.name != "python":
                (folder / entry.name).symlink_to(entry)
        (folder / "python" / "lib").mkdir(parents=True)
        for archive in (installed / "python" / "lib").glob("py4j-*"):
            (folder / "python" / "lib" / archive.name).symlink_to(archive)

    return cached_folder(name, link)


def start(master: str = "local[2]", **settings: str) -> SparkSession:
    """A session; ``settings`` with ``_`` for the dots of their names."""
    os.environ.update(environment())
    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
    )
    for name, value in settings.items():
        builder = builder.config(f"spark.{name.replace('_', '.')}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    return spark
