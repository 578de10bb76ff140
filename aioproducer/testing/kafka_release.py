"""The releases of Apache Kafka, with the differences in their downloads and starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["KafkaRelease"]

_HERE: Final = Path(__file__).parent
_POM: Final = _HERE / "pom.xml"
_POM_OF_OTHERS: Final = _HERE / "pom-other-releases.xml"

_FIRST_WITH_SCALA_2_13: Final = (2, 4)
_FIRST_WITH_KRAFT: Final = (3, 3)
"""The first release with KRaft for production; 2.8 to 3.2 have a preview of it."""
_FIRST_WITH_LOG4J_2: Final = (4, 0)
_ZOOKEEPER_FOR_JAVA_17: Final = "3.5.9"
"""ZooKeeper 3.4, which comes with Kafka before 2.4, cannot read an address on Java 14 or newer."""
_RELOAD4J: Final = {
    "logging.group": "org.slf4j",
    "logging.artifact": "slf4j-reload4j",
    "logging.version": "1.7.36",
}


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """One release, by its version: ``3.9.2``."""

    version: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise ValueError(f"{self.version!r} is no release of Kafka: name one like '3.9.2'")

    @classmethod
    def of_the_pom(cls) -> KafkaRelease:
        """The release that ``pom.xml`` names; only it has Kafka's tools."""
        return cls(_version_of_the_pom())

    @property
    def is_of_the_pom(self) -> bool:
        return self.version == _version_of_the_pom()

    @property
    def uses_zookeeper(self) -> bool:
        """True if it keeps the cluster's metadata in ZooKeeper, not in a quorum of its own."""
        return self._line < _FIRST_WITH_KRAFT

    @property
    def pom(self) -> Path:
        """The pom with its dependencies, to be given ``maven_properties``."""
        return _POM if self.is_of_the_pom else _POM_OF_OTHERS

    @property
    def maven_properties(self) -> Mapping[str, str]:
        if self.is_of_the_pom:
            return {}
        properties = {"kafka.version": self.version}
        if self._line < _FIRST_WITH_LOG4J_2:
            properties |= _RELOAD4J
        if self._line < _FIRST_WITH_SCALA_2_13:
            properties |= {"scala.version": "2.12", "zookeeper.version": _ZOOKEEPER_FOR_JAVA_17}
        return properties

    @property
    def folder(self) -> str:
        """The folder's name in the cache; it never mixes the jars of two sets of dependencies."""
        dependencies = self.pom.read_text(encoding="utf-8") + "".join(
            f"{name}={value}\n" for name, value in self.maven_properties.items()
        )
        return f"kafka-{self.version}-{hashlib.sha256(dependencies.encode()).hexdigest()[:8]}"

    @property
    def logging_option(self) -> str:
        """The JVM's option to log to stderr, from the level in ``kafka.log.level`` on."""
        if self._line < _FIRST_WITH_LOG4J_2:
            return f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}"
        return f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'}"

    @property
    def _line(self) -> tuple[int, int]:
        major, minor, _ = self.version.split(".")
        return int(major), int(minor)


@cache
def _version_of_the_pom() -> str:
    found = re.search(r"<kafka\.version>([^<]+)<", _POM.read_text(encoding="utf-8"))
    if found is None:
        raise RuntimeError(f"no kafka.version in {_POM}")
    return found[1]
