"""Spark's own Kafka sink, to be measured and tested beside ours: the jars of its connector.

Maven copies them into the cache that Kafka's own jars are in. One part is not Spark's:
``spark-token-provider-kafka-0-10``, which is not in every mirror of the central repository. It adds
delegation tokens to Kafka's settings; ``no_tokens`` has the three classes of it that the connector
calls, for clusters without tokens, and is compiled instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark

from aioproducer.testing.kafka_distribution import (
    KafkaUnavailableError,
    cached_folder,
    copy_jars,
    find_java,
)

__all__ = ["connector_jars"]

_POM: Final = Path(__file__).with_name("pom.xml")
_NO_TOKENS: Final = sorted(Path(__file__).with_name("no_tokens").glob("*.java"))
_SHA256: Final = {"4.1.3": "62f28a9cc90c31ec12fdc8f99dd92c770f635b44a9f1a8174982496c7d6e0a5f"}
_COMPILER: Final = "jdk.compiler/com.sun.tools.javac.Main"


def connector_jars() -> Sequence[str]:
    """The jars for ``spark.jars`` (with ``,`` between) or ``spark.driver.extraClassPath`` (``:``).

    They fit the installed PySpark; the first time they are downloaded (about 10 MB).

    Raises:
        KafkaUnavailableError: there is no JDK or no Maven, or no such connector.
    """
    sources = hashlib.sha256()
    for source in (_POM, *_NO_TOKENS):
        sources.update(source.read_bytes())
    version = pyspark.__version__
    folder = cached_folder(f"spark-connector-{version}-{sources.hexdigest()[:8]}", _make)
    return sorted(str(jar) for jar in (folder / "libs").glob("*.jar"))


def _make(folder: Path) -> None:
    version, libs = pyspark.__version__, folder / "libs"
    copy_jars(
        f"Spark's Kafka connector {version}",
        _POM,
        libs,
        properties={"spark.version": version},
        sha256=_SHA256.get(version),
    )
    _compile(folder / "classes")
    archive = shutil.make_archive(str(folder / "no-tokens"), "zip", folder / "classes")
    Path(archive).rename(libs / "no-tokens.jar")


def _compile(into: Path) -> None:
    spark = os.pathsep.join(map(str, Path(pyspark.__file__).with_name("jars").glob("*.jar")))
    command = [
        *(find_java().executable, "-m", _COMPILER, "-cp", spark, "-d", str(into)),
        *map(str, _NO_TOKENS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise KafkaUnavailableError(f"no JDK's compiler: {done.stderr[-4000:]}")
