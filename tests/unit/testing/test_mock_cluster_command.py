"""`python -m aioproducer.testing.mock_cluster`, used wrongly or without what it needs."""

from __future__ import annotations

import sys

import pytest

from aioproducer.testing.mock_cluster.__main__ import main


def test_without_its_extra_it_says_so_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SystemExit) as ended:
        main(["--brokers", "1"])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert 'pip install "aioproducer[testing]"' in line


@pytest.mark.parametrize("topic", ["orders:many", "orders:"])
def test_a_topic_without_a_number_is_wrong_use(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--topic", topic])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"--topic {topic}: write NAME or NAME:PARTITIONS" in line
