"""Apache Kafka's jars: resolved once by Maven into a cache outside of the repository."""

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
from pathlib import Path
from typing import Literal

from aioproducer.foundation.logs import plain_logger
from aioproducer.testing.kafka_release import KafkaRelease
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["KafkaDistribution", "KafkaUnavailableError"]

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
        raise KafkaUnavailableError(f"{executable} is no Java ({identity[:200]!r}): {what_to_do}")
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
