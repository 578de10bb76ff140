"""A codec without its library: installing, importing and all other codecs work on."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from aioproducer import Producer, ProducerConfig, TopicPartition
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.encoded_batch import batches_in, decompress
from aioproducer.errors import MissingExtraError
from aioproducer.foundation.codecs import codec_library
from aioproducer.sync import Producer as BlockingProducer
from tests.support.encoded_batches import batch

PYPROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"
LIBRARIES: Final = {"snappy": "cramjam", "lz4": "lz4", "zstd": "zstandard"}
NUMBERS: Final = {"snappy": 2, "lz4": 3, "zstd": 4}


def message(codec: str) -> str:
    return f"the codec {codec} needs {LIBRARIES[codec]}: pip install 'aioproducer[{codec}]'"


@pytest.fixture(params=sorted(LIBRARIES))
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A codec whose library can't be imported."""
    for module in (LIBRARIES[request.param], f"{LIBRARIES[request.param]}.frame"):
        monkeypatch.setitem(sys.modules, module, None)
    return request.param


def test_the_option_is_refused_when_it_is_set(missing: Any) -> None:
    for make in (ProducerConfig, Producer, BlockingProducer):
        with pytest.raises(MissingExtraError) as caught:
            make(bootstrap_servers="localhost:9092", compression_type=missing)
        assert str(caught.value) == message(missing)
        assert isinstance(caught.value, ImportError)


def test_properties_are_refused_as_well(missing: Any) -> None:
    properties = {"bootstrap.servers": "localhost:9092", "compression.type": missing}
    with pytest.raises(MissingExtraError, match="pip install"):
        ProducerConfig.from_properties(properties)


def test_compressing_and_reading_are_refused(missing: Any) -> None:
    with pytest.raises(MissingExtraError, match="pip install"):
        compression(missing)
    with pytest.raises(MissingExtraError, match="pip install"):
        decompress(NUMBERS[missing], memoryview(b"x"), 100)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_codecs_of_the_standard_library_need_nothing(
    codec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in LIBRARIES.values():
        monkeypatch.setitem(sys.modules, library, None)
    config = ProducerConfig(bootstrap_servers="localhost:9092", compression_type=codec)
    assert config.compression_type == codec
    assert codec_library(codec) is None


def test_a_batch_that_cannot_be_read_is_named(missing: Any) -> None:
    data = batch(b"anything", attributes=NUMBERS[missing])
    [encoded] = batches_in(data, TopicPartition("orders", 3), check_crcs=True)
    with pytest.raises(MissingExtraError) as caught:
        encoded.decompressed(1_000)
    assert str(caught.value) == (
        f"the batch of orders-3 at offset 0 can't be read: {message(missing)}"
    )


WITHOUT: Final = """
import sys
for name in ("cramjam", "zstandard", "lz4", "crc32c", "mmh3"):
    sys.modules[name] = None
import aioproducer, aioproducer.sync, aioproducer.admin, aioproducer.reader, aioproducer.cli.app
aioproducer.Producer(bootstrap_servers="localhost:9092", compression_type="gzip")
"""


def test_a_producer_is_made_without_any_compiled_library() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


IMPORTED: Final = """
import sys
import aioproducer
aioproducer.Producer(bootstrap_servers="localhost:9092")
assert not {"cramjam", "zstandard", "lz4"} & set(sys.modules)
"""


def test_a_codec_that_is_not_used_is_not_imported() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], check=True)


def test_each_codec_is_an_extra_and_all_but_snappy_are_defaults_where_wheels_exist() -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    for codec, library in LIBRARIES.items():
        [extra] = project["optional-dependencies"][codec]
        assert extra.startswith(library)
        defaults = [each for each in project["dependencies"] if each.startswith(library)]
        assert [each.partition(";")[0] for each in defaults] == [extra] * (codec != "snappy")


def test_the_compiled_libraries_are_defaults_on_the_same_platforms() -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    markers = {
        name: marker.strip()
        for name, found, marker in (each.partition(";") for each in project["dependencies"])
        if found
    }
    assert len(markers) == 4
    assert len(set(markers.values())) == 1
