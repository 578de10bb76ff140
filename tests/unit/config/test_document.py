from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from aioproducer.config import document
from aioproducer.config.__main__ import main
from aioproducer.config.names import WITHOUT_EFFECT
from aioproducer.config.options import OPTIONS, Group
from aioproducer.errors import ConfigError

README = f"# Title\n\n{document.BEGIN}\nold\n{document.END}\n\nMore.\n"


def test_every_option_and_group_has_its_row() -> None:
    lines = document.markdown().splitlines()
    for option in OPTIONS.values():
        anchor = f'| <a id="{option.name}"></a>[`{option.name}`](#{option.name})'
        (row,) = [line for line in lines if line.startswith(anchor)]
        assert row.count("|") - row.count("\\|") == 3
    for name in WITHOUT_EFFECT:
        assert any(line.startswith(f"| `{name}` |") for line in lines)
    assert [line[4:] for line in lines if line.startswith("### ")][: len(Group)] == [
        group.value for group in Group
    ]
    assert "Default: `None` (Kafka: 5)." in document.markdown()
    assert "<br>Java: `partitioner.class` |" in document.markdown()


def test_insert_replaces_only_the_section() -> None:
    refreshed = document.insert(README)
    assert document.section(README) == "old\n"
    assert document.section(refreshed) == document.markdown()
    assert refreshed.startswith(f"# Title\n\n{document.BEGIN}\n### Essentials")
    assert refreshed.endswith(f"\n{document.END}\n\nMore.\n")
    assert document.insert(refreshed) == refreshed


@pytest.mark.parametrize(
    "text", ["", document.BEGIN, f"{document.END} {document.BEGIN}", README + README]
)
def test_markers_must_be_there_once(text: str) -> None:
    with pytest.raises(ConfigError, match="once each"):
        document.insert(text)


def test_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "README.md"
    path.write_text(README, "utf-8")
    assert main(["--write", str(path)]) == 0
    assert path.read_text("utf-8") == document.insert(README)
    path.write_text("no markers", "utf-8")
    assert main(["--write", str(path)]) == 1
    assert main(["--write", str(tmp_path / "missing")]) == 1
    assert path.read_text("utf-8") == "no markers"
    assert "once each" in capsys.readouterr().err


def test_the_command_prints() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "aioproducer.config"], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, document.markdown()), ended.stderr
