"""The wheel: few packages without an extra, its bill of materials, and its metadata."""

from __future__ import annotations

import email
import json
import re
import shutil
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from setuptools.command.egg_info import FileList  # type: ignore[import-untyped]

from aioproducer.foundation.version import __version__
from tests.packaging.wheel import ROOT, CleanEnvironment

pytestmark = pytest.mark.slow


INFO = f"aioproducer-{__version__}.dist-info"


@pytest.fixture(scope="module")
def bill(wheel: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_read(wheel, "sboms/aioproducer.cdx.json"))
    return found


def _read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as packed:
        return packed.read(f"{INFO}/{name}").decode()


def test_the_bill_is_one_of_cyclonedx_about_this_version(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == ("aioproducer", __version__)
    assert about["licenses"] == [{"license": {"id": "Apache-2.0"}}]


def test_the_bill_has_every_dependency_as_it_is_declared(bill: dict[str, Any]) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [part for part in bill["components"] if part.get("scope") == "required"]
    assert len(required) == len(declared["dependencies"]) > 0
    for part, requirement in zip(required, declared["dependencies"], strict=True):
        assert requirement.startswith(part["name"])
        assert part["purl"] == f"pkg:pypi/{part['name']}"
        [written] = part["properties"]
        assert written["value"].partition(";")[0] == requirement.partition(";")[0]


def test_every_reference_of_the_bill_leads_to_a_component(bill: dict[str, Any]) -> None:
    known = [part["bom-ref"] for part in bill["components"]]
    assert len(set(known)) == len(known)
    [depends] = bill["dependencies"]
    assert depends["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert depends["dependsOn"] == known


def test_the_wheel_has_the_license_and_the_notice_with_that_of_kafka(wheel: Path) -> None:
    assert "Apache License" in _read(wheel, "licenses/LICENSE")
    notice = _read(wheel, "licenses/NOTICE")
    assert "Apache Kafka\n    Copyright" in notice
    assert "The Apache Software Foundation (https://www.apache.org/)" in notice


def test_the_bill_is_recorded_in_the_wheel(wheel: Path) -> None:
    assert f"{INFO}/sboms/aioproducer.cdx.json,sha256=" in _read(wheel, "RECORD")


def test_the_metadata_name_authors_and_kinds(wheel: Path) -> None:
    about = email.message_from_string(_read(wheel, "METADATA"))
    assert about["Author"] == "The aioproducer contributors"
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert about["Summary"] == settings["description"]
    assert about.get_all("Project-URL") == [f"{key}, {to}" for key, to in settings["urls"].items()]


def test_the_links_of_the_description_lead_to_this_version(wheel: Path) -> None:
    text = _read(wheel, "METADATA").partition("\n\n")[2]
    targets = re.findall(r"\[[^]]*\]\(([^)]+)\)", text)
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
        "Repository"
    ]
    places = [each.removeprefix(repository).split(f"/v{__version__}/") for each in targets]
    assert {kind for kind, _ in places} == {"/blob", "/raw"}
    for kind, path in places:
        path, _, _ = path.partition("#")
        assert (ROOT / path).exists()
        assert (kind == "/raw") == path.endswith(".svg")


def test_only_what_runs_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    kinds = {Path(each).suffix for each in names if each.startswith("aioproducer/")}
    beside = {each for each in names if "/" not in each}
    assert beside == {"pyspark_aioproducer.py", "pytest_aioproducer.py"}
    assert kinds <= {".py", ".so", ".typed", ".pyi", ".properties", ".xml", ".json"}


MOST_PACKAGES = 6
LIBRARIES = {"lz4", "crc32c", "mmh3", "zstandard"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    place = tmp_path_factory.mktemp("light")
    environment = CleanEnvironment(place / ".venv")
    environment.run("python", "-m", "pip", "install", "--quiet", str(wheel), cwd=place)
    return environment


def test_few_packages_come_with_it(installed: CleanEnvironment, tmp_path: Path) -> None:
    listed = installed.run("python", "-m", "pip", "list", "--format", "json", cwd=tmp_path)
    names = {each["name"] for each in json.loads(listed)} - {"aioproducer", "pip", "setuptools"}
    assert names <= LIBRARIES
    assert len(names) <= MOST_PACKAGES


@pytest.mark.parametrize("command", ["aioproducer", "python -m aioproducer"])
def test_the_command_names_the_extra(
    installed: CleanEnvironment, tmp_path: Path, command: str
) -> None:
    version = installed.run("sh", "-c", f"{command} --version", cwd=tmp_path)
    assert version.startswith(f"aioproducer {__version__}, ")
    with pytest.raises(AssertionError, match=r"ended with 2") as caught:
        installed.run("sh", "-c", f"{command} topics list", cwd=tmp_path)
    assert "needs typer and rich: pip install 'aioproducer[cli]'" in str(caught.value)


def test_the_tests_of_an_sdist_need_nothing_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("benchmarks", "examples", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=caches)
    monkeypatch.chdir(tmp_path)
    files = FileList()
    for line in (ROOT / "MANIFEST.in").read_text("utf-8").splitlines():
        files.process_template_line(line)
    packed = {each for each in files.files if each.endswith(".py")}
    assert {each.split("/")[0] for each in packed} == {"examples", "tests"}
    assert len([each for each in packed if each.startswith("tests/unit/")]) > 200
    folders = {parent.as_posix() for each in packed for parent in Path(each).parents}
    for each in packed:
        text = Path(each).read_text("utf-8")
        for name in re.findall(r"^from ((?:tests|benchmarks)[\w.]*)", text, re.M):
            module = name.replace(".", "/")
            assert f"{module}.py" in packed or module in folders, f"{each} imports {name}"
