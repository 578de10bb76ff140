from __future__ import annotations

import subprocess
import sys

import pytest

from aioproducer.config.__main__ import main, markdown
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


def test_the_command_explains_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linger_ms", "partitioner.class", "auto_offset_reset"]) == 0
    linger, partitioner, reset = capsys.readouterr().out.split("\n\n")
    assert linger.startswith("linger_ms (Java: linger.ms)\n  How long a batch")
    assert "Default: None (Kafka: 5)." in " ".join(linger.split())
    assert max(map(len, linger.splitlines())) < 80
    assert partitioner.startswith("partitioner (Java: partitioner.class)\n")
    assert reset.startswith("auto_offset_reset (Java: auto.offset.reset)\n")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("linger_m", "unknown option 'linger_m'; did you mean 'linger_ms'?\n"),
        ("linger.m", "unknown option 'linger.m'; did you mean 'linger.ms'?\n"),
        ("queue_buffering", "unknown option 'queue_buffering'\n"),
    ],
)
def test_the_command_suggests_an_option(
    name: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    out, told = capsys.readouterr()
    assert (out, told.partition("This command")[0]) == ("", error)
    assert "Those of Consumer are on the page 'Consume with a group'." in told
