"""What is downloaded for a release of Kafka, and how it is started."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from aioproducer.testing.kafka_distribution import (
    KafkaRelease,
    KafkaUnavailableError,
    cached_folder,
    copy_jars,
)

MAVEN = """#!/bin/sh
echo "$@" > "$(dirname "$0")/arguments"
for each; do case $each in -DoutputDirectory=*) folder=${each#*=};; esac; done
mkdir -p "$folder"
printf two > "$folder/b.jar"
printf one > "$folder/a.jar"
"""


def test_the_release_of_the_pom_needs_no_properties() -> None:
    release = KafkaRelease.of_the_pom()
    assert release.is_of_the_pom
    assert release.maven_properties == {}
    assert not release.uses_zookeeper
    assert release.folder.startswith(f"kafka-{release.version}-")


@pytest.mark.parametrize(
    ("version", "zookeeper", "properties", "logging"),
    [
        (
            "2.1.1",
            True,
            {"logging.group", "scala.version", "zookeeper.version"},
            "log4j.properties",
        ),
        ("2.8.2", True, {"logging.group"}, "log4j.properties"),
        ("3.2.3", True, {"logging.group"}, "log4j.properties"),
        ("3.3.2", False, {"logging.group"}, "log4j.properties"),
        ("3.10.0", False, {"logging.group"}, "log4j.properties"),
        ("4.0.2", False, set(), "log4j2.properties"),
    ],
)
def test_older_releases_need_more(
    version: str, zookeeper: bool, properties: set[str], logging: str
) -> None:
    release = KafkaRelease(version)
    assert release.uses_zookeeper is zookeeper
    named = set(release.maven_properties) - {"logging.artifact", "logging.version"}
    assert named == properties | {"kafka.version"}
    assert release.maven_properties["kafka.version"] == version
    assert release.logging_option.endswith(f"/{logging}")


def test_releases_share_no_folder() -> None:
    versions = ["2.1.1", "2.8.2", "4.0.2", KafkaRelease.of_the_pom().version]
    assert len({KafkaRelease(version).folder for version in versions}) == len(versions)


@pytest.mark.parametrize("text", ["4", "4.0", "4.0.0-rc1", "../4.0.0", ""])
def test_a_version_has_three_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="is not a release of Kafka"):
        KafkaRelease(text)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven that writes two jars, and the file with its arguments."""
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(MAVEN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("AIOPRODUCER_CACHE", str(tmp_path / "cache"))
    return program.with_name("arguments")


def of_both(first: bytes, second: bytes) -> str:
    lines = f"{sha256(first).hexdigest()}  a.jar\n{sha256(second).hexdigest()}  b.jar\n"
    return sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("expected", [of_both(b"one", b"two"), None])
def test_maven_has_to_check_what_it_downloads(maven: Path, expected: str | None) -> None:
    folder = cached_folder(
        "jars", lambda into: copy_jars("jars", Path("pom.xml"), into / "libs", sha256=expected)
    )
    assert sorted(each.name for each in (folder / "libs").iterdir()) == ["a.jar", "b.jar"]
    assert "-C" in maven.read_text().split()  # --strict-checksums


def test_jars_that_were_not_expected_are_not_used(maven: Path, tmp_path: Path) -> None:
    expected = of_both(b"one", b"three")
    with pytest.raises(KafkaUnavailableError, match=f"other files for jars than .* not {expected}"):
        cached_folder(
            "jars", lambda into: copy_jars("jars", Path("pom.xml"), into / "libs", sha256=expected)
        )
    assert maven.exists()
    assert {each.suffix for each in (tmp_path / "cache").iterdir()} == {".lock"}
