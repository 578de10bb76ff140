"""The demo and the site take the environment of development if it is there, else a small one. A
release has no placeholders, and the version of its tag.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documentation.pages import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="NOT TESTED: there is no make")


def commands(target: str, place: Path) -> str:
    """The commands that make would run for ``target`` in ``place``."""
    done = subprocess.run(
        ["make", "-n", target, "VENV=.venv"],
        cwd=place,
        env={name: os.environ[name] for name in os.environ if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("target", ["demo", "docs"])
def test_a_clean_clone_gets_a_small_environment(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "setup.py", "compiled_types.py", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    made = commands(target, tmp_path)
    assert f'-m venv ".venv-{target}"' in made
    assert "[dev" not in made
    assert f'".venv-{target}/bin/' in made.splitlines()[-1]

    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").touch()
    for command in commands(target, tmp_path).splitlines():
        assert command.startswith('".venv/bin/')


@pytest.mark.parametrize(
    ("version", "changed", "refusal"),
    [
        ("1.0.0rc2", "", ""),
        ("1.0.0", "", ""),
        ("1.0.0", "SECURITY.md", "SECURITY.md:3:Write to security@example.invalid\n"),
        ("1.0.0", "zensical.toml", 'zensical.toml:3:site_url = "https://docs.invalid/"\n'),
        ("1.0.0", "pyproject.toml", 'pyproject.toml:3:Issues = "https://repository.invalid"\n'),
        ("1.0.0", "README.md", "README.md:3:git clone https://repository.invalid/"),
        ("1.0.0", "docs/tutorial/first.md", "first.md:3:git clone https://repository.invalid/"),
        ("1.0.0", "This address is a placeholder", "SECURITY.md still says that its address"),
        ("1.0.0", "aioproducer is not on PyPI yet", "these pages still say that there is no"),
        ("1.0.1", "TAG", "the tag v1.0.0 is not that of version 1.0.1\n"),
        ("1.0.1", "", "CHANGELOG.md has no heading '## 1.0.1 (<day>)'\n"),
    ],
)
def test_a_release_with_placeholders_or_another_version_is_refused(
    version: str, changed: str, refusal: str, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    place = tmp_path / "aioproducer" / "foundation"
    place.mkdir(parents=True)
    (tmp_path / "docs" / "tutorial").mkdir(parents=True)
    (place / "version.py").write_text(f'__version__: Final = "{version}"\n')
    (tmp_path / "docs" / "index.md").write_text("# aioproducer\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.0.0 (2027-01-31)\n")
    for name, text in (
        ("SECURITY.md", "Write to security@example.invalid"),
        ("README.md", "git clone https://repository.invalid/aioproducer"),
        ("docs/tutorial/first.md", "git clone https://repository.invalid/aioproducer"),
        ("zensical.toml", 'site_url = "https://docs.invalid/"'),
        ("pyproject.toml", 'Issues = "https://repository.invalid"'),
    ):
        shown = text if name == changed else text.replace(".invalid", ".example")
        (tmp_path / name).write_text(f"1\n2\n{shown}\n")
    told = {"placeholder": "SECURITY.md", "PyPI": "README.md"}
    for word in set(told).intersection(changed.split()):
        (tmp_path / told[word]).write_text(f"{changed}\n")
    given = ["TAG=v1.0.0"] if changed == "TAG" else []
    done = subprocess.run(
        ["make", "--no-print-directory", "release-check", *given],
        cwd=tmp_path,
        env={name: os.environ[name] for name in os.environ if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (not refusal)
    assert refusal in done.stdout + done.stderr
