"""What is downloaded, built and run is what was chosen: hashes, versions and few permissions."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from aioproducer.foundation.version import __version__
from aioproducer.testing.kafka_distribution import KafkaRelease
from tests.matrix.conftest import NEWEST_OF_EACH_LINE, OTHERS, TOO_OLD

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = sorted((ROOT / "aioproducer").rglob("*.py"))
DOWNLOADERS: Final = [*SOURCES, *sorted((ROOT / "benchmarks").rglob("*.py"))]

CONSTRAINTS: Final = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
WORKFLOWS: Final = {
    path.name: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")
}

FAULTS: Final = {
    "aiohttp": ["3.13.3"],  # CVE-2026-22815: trailers without a limit
    "cryptography": ["44.0.0", "46.0.6"],  # CVE-2024-12797 of OpenSSL; CVE-2026-39892: an overflow
    "lz4": ["3.1.0"],  # CVE-2021-3520 of liblz4
    "orjson": ["3.9.14", "3.11.5"],  # CVE-2024-27454, CVE-2025-67221: recursion without a limit
    "protobuf": ["5.29.4", "6.31.0", "5.29.5", "6.33.4"],  # CVE-2025-4565, CVE-2026-0994: recursion
    "pyarrow": ["14.0.0"],  # CVE-2023-47248: code in files
    "requests": ["2.32.3"],  # CVE-2024-47081: credentials of .netrc to another host
    "setuptools": ["78.1.0"],  # CVE-2025-47273: a path out of its folder
    "urllib3": ["2.6.2", "2.6.3"],  # CVE-2026-21441, CVE-2026-44432: compressed bombs
}
"""The last versions with a known fault."""


# --- dependencies ------------------------------------------------------------------------------


def requirements() -> list[Requirement]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    written = [*settings["build-system"]["requires"], *project["dependencies"]]
    written += [each for extra in project["optional-dependencies"].values() for each in extra]
    return [Requirement(each) for each in written]


@pytest.mark.parametrize("name", FAULTS)
def test_no_dependency_may_have_a_known_fault(name: str) -> None:
    found = [each for each in requirements() if each.name == name]
    assert found
    for each in found:
        assert not [*each.specifier.filter(FAULTS[name])], str(each)


def test_the_versions_of_ci_are_those_that_the_project_allows() -> None:
    named = {each.name: each for each in requirements() if each.name in CONSTRAINTS}
    assert {"cryptography", "protobuf", "setuptools"} <= set(named)
    for name, requirement in named.items():
        assert CONSTRAINTS[name] in requirement.specifier, str(requirement)


# --- workflows ---------------------------------------------------------------------------------


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each job: its workflow's name, its own, and its content."""
    for file, text in WORKFLOWS.items():
        for name, job in yaml.safe_load(text)["jobs"].items():
            yield file, name, job


def test_each_action_is_pinned_by_the_hash_of_a_commit() -> None:
    for file, text in WORKFLOWS.items():
        for line in re.findall(r"^.*\buses: .*$", text, re.M):
            local = "uses: ./.github/workflows/" in line
            assert local or re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), (
                f"{file}: {line.strip()}: write the hash of its commit, and its version behind it"
            )


def test_no_checkout_leaves_the_token_on_the_disk() -> None:
    checkouts = [
        (file, name, step.get("with", {}).get("persist-credentials"))
        for file, name, job in jobs()
        for step in job.get("steps", [])
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert [each for each in checkouts if each[2] is not False] == []


def test_a_workflow_may_read_and_a_job_says_what_more_it_needs() -> None:
    for text in WORKFLOWS.values():
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    more = {(file, name): job["permissions"] for file, name, job in jobs() if "permissions" in job}
    assert more == {
        ("codeql.yml", "analyze"): {"contents": "read", "security-events": "write"},
        ("wheels.yml", "publish"): {
            "id-token": "write",
            "attestations": "write",
            "contents": "read",
        },
        ("docs.yml", "deploy"): {"id-token": "write", "pages": "write"},
    }


def test_nothing_is_published_before_the_tests_have_passed() -> None:
    found = {name: job for file, name, job in jobs() if file == "wheels.yml"}
    assert set(found["publish"]["needs"]) == {"tests", "wheels", "sdist"}
    assert found["tests"]["uses"] == "./.github/workflows/tests.yml"
    for name in ("tests", "wheels", "sdist"):
        assert found[name]["needs"] == ["addresses"]
    [_, check] = found["addresses"]["steps"]
    assert check["run"] == 'make release-check TAG="$GITHUB_REF_NAME"'


def test_builds_take_their_tools_in_the_versions_of_the_constraints() -> None:
    builds = [
        step
        for _, _, job in jobs()
        for step in job.get("steps", [])
        if re.search(r"-m build |pip install .*(dist/|\"\.)", step.get("run", ""))
    ]
    assert len(builds) == 3
    for step in builds:
        assert step.get("env") == {"PIP_CONSTRAINT": "constraints.txt"}, step["run"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["cibuildwheel"]["environment"] == {"PIP_CONSTRAINT": "constraints.txt"}


def test_the_page_of_platforms_has_the_tag_of_the_wheels() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]
    tag = settings["linux"]["manylinux-x86_64-image"]
    glibc = tag.removeprefix("manylinux_").replace("_", ".")
    page = (ROOT / "docs" / "reference" / "versions.md").read_text("utf-8")
    assert f"| Linux x86_64, `{tag}`: glibc {glibc} or newer |" in page


def test_the_addresses_are_those_of_one_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    urls = project["urls"]
    assert (site["repo_url"], site["site_url"]) == (urls["Repository"], urls["Documentation"])
    for name in ("Changelog", "Issues"):
        assert urls[name].startswith(urls["Repository"] + "/")
    assert site["site_description"] == project["description"]
    assert site["extra"]["release"] == __version__
    for page in ("README.md", "docs/tutorial/getting-started.md"):
        assert f"git clone {urls['Repository']}\n" in (ROOT / page).read_text("utf-8")
    versions = "docs/reference/versions.md"
    for page in ("README.md", "docs/tutorial/getting-started.md", "CHANGELOG.md", versions):
        assert __version__ in (ROOT / page).read_text("utf-8")


def test_tools_are_installed_in_the_versions_of_the_constraints() -> None:
    installs = [
        found
        for _, _, job in jobs()
        for step in job.get("steps", [])
        for found in re.findall(r"pip install (?!dist/)(.*)", step.get("run", ""))
    ]
    assert len(installs) >= 3
    for each in installs:
        assert each.startswith("-c constraints.txt "), each
        for name in re.findall(r"(?<= )[a-z][\w-]*", each.removeprefix("-c constraints.txt")):
            assert name in CONSTRAINTS, f"{name} has no version in constraints.txt"


# --- downloads and processes -------------------------------------------------------------------


@pytest.mark.parametrize("version", [*NEWEST_OF_EACH_LINE, *OTHERS, TOO_OLD])
def test_each_release_of_kafka_in_the_tests_has_a_fingerprint(version: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", KafkaRelease(version).sha256 or "")


def test_the_release_of_the_pom_has_a_fingerprint() -> None:
    assert KafkaRelease.of_the_pom().sha256


def test_each_download_by_maven_has_a_fingerprint() -> None:
    calls = [
        found.group()
        for path in DOWNLOADERS
        for found in re.finditer(
            r"(?<!def )copy_jars\((?:[^()]|\([^()]*\))*\)", path.read_text("utf-8")
        )
    ]
    assert len(calls) == 4
    assert all("sha256=" in each for each in calls), calls


def test_a_python_that_the_package_starts_has_no_module_of_the_working_directory() -> None:
    starts = [
        found.group(1)
        for path in SOURCES
        for found in re.finditer(r"sys\.executable,\s*(.*)", path.read_text("utf-8"))
    ]
    assert len(starts) >= 3
    assert all(re.match(r'"-[IP]"', each) for each in starts), starts
