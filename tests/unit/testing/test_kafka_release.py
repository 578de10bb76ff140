"""What is downloaded for a release of Kafka, and how it is started."""

from __future__ import annotations

import pytest

from aioproducer.testing.kafka_release import KafkaRelease


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
    with pytest.raises(ValueError, match="is no release of Kafka"):
        KafkaRelease(text)
