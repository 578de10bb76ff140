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

_SHA256: Final = {
    "2.0.1": "37305d1a36920270ac5e34bd1bfe088aa01b3a9f3344f865247482807b93497b",
    "2.1.1": "abc74da4c828c4db68fbbce13e7e8c2434167d48709afe3b1faef5051e91b58b",
    "2.8.2": "975f38cdf4500a6a7dd35a4bcf409d3a3c847e0b89f1bd33f51fb097a3f106e1",
    "3.2.3": "37b096fb7ef1335dbfb84b1c93bd5c1bba0a87a2ccabda8f0e58a58f8ff22b8e",
    "3.3.2": "d42d5b500b5c44e93c11ae95958be2305da3f77a89d64f0a65ee38c24a6782c5",
    "3.9.2": "a306d3d7b3e6971ae0595a1d6465f6f1345606875af557c0575dff2fdb7e93e1",
    "4.0.2": "f734718a6663c870ce06af6d0a9b90e6d1cc1a1dd3403c0f5806cc033bc97f6c",
    "4.3.1": "d20f9113cb0a550df9533c88650c44d99a14b944d91b0f6042fcbd5750e033e5",
    "4.4.0": "2e950015d28759dac95107d92dae3da8dfbd7a9b4b78d61dd0cdc200e500387f",
}
"""``kafka_distribution.fingerprint()`` of the jars of each release in the tests."""


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
    def sha256(self) -> str | None:
        """The fingerprint that its jars must have; None: no test uses this release."""
        return _SHA256.get(self.version)

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
