"""Apache Kafka's jars: resolved once by Maven into a cache outside of the repository.

:class:`KafkaRelease` describes how releases differ in their downloads and their starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from aioproducer.foundation.logs import plain_logger
from aioproducer.testing.processes import ProcessSupervisor

__all__ = [
    "KafkaRelease",
    "KafkaDistribution",
    "KafkaUnavailableError",
]


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
            raise ValueError(f"{self.version!r} is not a release of Kafka: name one like '3.9.2'")

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


MINIMUM_JAVA = 17

logger = plain_logger(__name__)


class KafkaUnavailableError(RuntimeError):
    """This machine cannot run Kafka; the message names the missing part and the package."""


@dataclass(frozen=True, slots=True)
class Java:
    executable: str
    identity: str
    """The output of `java -version`: a class archive serves this build only."""


@dataclass(frozen=True, slots=True)
class KafkaDistribution:
    """A Java and a folder of jars that fit each other."""

    release: KafkaRelease
    directory: Path
    java: Java
    classpath: str

    @classmethod
    def resolve(cls, release: KafkaRelease | None = None) -> KafkaDistribution:
        """The cached distribution; the first time Maven downloads it (about 60 MB).

        Without a release it is the one of `pom.xml`. Raises KafkaUnavailableError.
        """
        java = find_java()
        release = release or KafkaRelease.of_the_pom()
        directory = cached_folder(
            release.folder,
            lambda folder: copy_jars(
                f"Kafka {release.version}",
                release.pom,
                folder / "libs",
                release.maven_properties,
                sha256=release.sha256,
            ),
        )
        jars = sorted(str(jar) for jar in (directory / "libs").glob("*.jar"))
        if not jars:
            raise KafkaUnavailableError(f"no jars in {directory}: delete it and start again")
        return cls(release, directory, java, os.pathsep.join(jars))

    @property
    def class_archive(self) -> Path:
        """The path of the JVM's class data archive (CDS) for this Java, if it was made."""
        identity = hashlib.sha256(self.java.identity.encode()).hexdigest()[:8]
        return self.directory / f"classes-{identity}.jsa"

    def command(
        self,
        main_class: str,
        *args: str,
        jvm_options: Sequence[str] = (),
        log_level: str = "INFO",
        class_path: Sequence[str] = (),
    ) -> list[str]:
        """The command line of one of Kafka's main classes; its log goes to stderr.

        `class_path` comes after Kafka's jars, which a class archive needs in front.
        """
        archive = self.class_archive
        share = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        return [
            self.java.executable,
            *share,
            *jvm_options,
            self.release.logging_option,
            f"-Dkafka.log.level={log_level}",
            "-cp",
            os.pathsep.join((self.classpath, *class_path)),
            main_class,
            *args,
        ]


def kafka_version() -> str:
    """The version that `pom.xml` names."""
    return KafkaRelease.of_the_pom().version


def cache_directory() -> Path:
    """`$AIOPRODUCER_CACHE`, else `$XDG_CACHE_HOME/aioproducer`, else `~/.cache/aioproducer`."""
    if own := os.environ.get("AIOPRODUCER_CACHE"):
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "aioproducer"


@contextlib.contextmanager
def cache_lock(name: str) -> Iterator[None]:
    """Hold a lock between processes and threads; the kernel drops it when its holder dies."""
    try:
        cache_directory().mkdir(parents=True, exist_ok=True)
        lock = (cache_directory() / f"{name}.lock").open("wb")
    except OSError as error:
        raise KafkaUnavailableError(
            f"the cache {cache_directory()} cannot be written ({error}): "
            "name another folder in $AIOPRODUCER_CACHE"
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_java() -> Java:
    """`$JAVA_HOME/bin/java`, else `java` on the PATH; raises KafkaUnavailableError."""
    home = os.environ.get("JAVA_HOME")
    executable = str(Path(home, "bin", "java")) if home else shutil.which("java")
    what_to_do = f"install a JDK {MINIMUM_JAVA} or newer, or name one in $JAVA_HOME"
    if executable is None:
        raise KafkaUnavailableError(f"Kafka needs Java, and there is no `java` here: {what_to_do}")
    identity = _java_identity(executable)
    found = re.search(r'version "(?:1\.)?(\d+)', identity)
    if found is None:
        raise KafkaUnavailableError(f"{executable} is not Java ({identity[:200]!r}): {what_to_do}")
    if int(found[1]) < MINIMUM_JAVA:
        raise KafkaUnavailableError(f"{executable} is Java {found[1]}, too old: {what_to_do}")
    return Java(executable, identity)


@functools.cache
def _java_identity(executable: str) -> str:
    try:
        run = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        return str(error)
    return run.stderr


def cached_folder(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled by `make` the first time; it is whole, or not there at all.

    Raises KafkaUnavailableError, and the errors of `make`.
    """
    folder = cache_directory() / name
    if not folder.exists():
        with cache_lock(name):
            if not folder.exists():
                _make_folder(folder, make)
    return folder


def _make_folder(folder: Path, make: Callable[[Path], None]) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    with ProcessSupervisor() as supervisor:
        supervisor.remove_at_end(partial)
        make(partial)
        partial.chmod(0o755)
        partial.rename(folder)


def copy_jars(
    what: str,
    pom: Path,
    into: Path,
    properties: Mapping[str, str] | None = None,
    *,
    sha256: str | None,
    goal: Literal["copy-dependencies", "copy"] = "copy-dependencies",
) -> None:
    """Let Maven copy the pom's dependencies, `what`, into a folder; `properties` override its own.

    The goal `copy` takes the artifacts that the pom lists for it, without their dependencies.
    The folder must have the fingerprint `sha256`. None: only Maven checks the files, by the
    checksums beside them in its repository.

    Raises KafkaUnavailableError.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError(
            f"{what} is not in {cache_directory()} yet, and there is no `mvn` to "
            "download it: install Apache Maven 3.6 or newer"
        )
    logger.warning("downloading %s by Maven into %s, once", what, cache_directory())
    # Two Mavens at once would write into the same local repository.
    with cache_lock("maven"), ProcessSupervisor() as supervisor:
        download = supervisor.start(
            [
                *(maven, "-B", "-q", "-C", "-f", str(pom), f"dependency:{goal}"),
                *("-DincludeScope=runtime", f"-DoutputDirectory={into}"),
                *(f"-D{name}={value}" for name, value in (properties or {}).items()),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=into.parent,
        )
        output = download.communicate()[0].decode(errors="replace")
    if download.returncode != 0:
        raise KafkaUnavailableError(
            f"Maven could not download {what} (exit code {download.returncode}): "
            "is its repository reachable? See settings.xml for mirrors and proxies.\n"
            f"{output[-4000:]}"
        )
    if sha256 is not None and (found := fingerprint(into)) != sha256:
        raise KafkaUnavailableError(
            f"Maven's repository returned other files for {what} than this version of aioproducer "
            f"was tested with (fingerprint {found}, not {sha256}), so none of them is used: "
            "remove them from ~/.m2/repository, and download from Maven Central"
        )


def fingerprint(folder: Path) -> str:
    """The SHA-256 of the list of the folder's files: a line for each, its own SHA-256 and name."""
    lines = []
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()
