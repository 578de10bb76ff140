from __future__ import annotations

import subprocess
import sys

from aioproducer.config.__main__ import markdown
from aioproducer.config.names import WITHOUT_EFFECT
from aioproducer.config.options import OPTIONS, Group


def test_every_option_and_group_has_its_row() -> None:
    lines = markdown().splitlines()
    for option in OPTIONS.values():
        anchor = f'| <a id="{option.name}"></a>[`{option.name}`](#{option.name})'
        (row,) = [line for line in lines if line.startswith(anchor)]
        assert row.count("|") - row.count("\\|") == 3
    for name in WITHOUT_EFFECT:
        assert any(line.startswith(f"| `{name}` |") for line in lines)
    assert [line[4:] for line in lines if line.startswith("### ")][: len(Group)] == [
        group.value for group in Group
    ]
    assert "Default: `None` (Kafka: 5)." in markdown()
    assert "<br>Java: `partitioner.class` |" in markdown()


def test_the_command_prints() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "aioproducer.config"], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, markdown()), ended.stderr
