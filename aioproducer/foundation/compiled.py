"""The Python that this package runs on: the interpreter, and compiled modules or their source.

The package needs CPython 3.11 or newer, with the GIL, on which the fast path and the compiled loops
rely: importing this module in a free-threaded build raises ImportError, unless it runs with the
GIL.

The choice between compiled modules and source is made once. Each of :data:`MODULES` is compiled
from its own source, and the build reads their types from their annotations (``compiled_types.py``,
at the top of the repository). The modules know each other's classes, so all of them are compiled,
or none is.

The source runs instead if ``AIOPRODUCER_PURE_PYTHON=1`` is in the environment, if the installation
had no compiler, if a compiled module can't be loaded, or if a checkout has a source that is newer
than what was compiled from it.

The innermost loops have a second form in ``_speedups.pyx`` files instead, which
``records/acceleration.py`` and ``columnar/encoder.py`` choose.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from os import path
from typing import Final

__all__ = [
    "MODULES",
    "in_use",
    "is_checkout",
    "is_source_wanted",
]


_is_gil_enabled = getattr(sys, "_is_gil_enabled", None)  # since Python 3.13

if _is_gil_enabled is not None and not _is_gil_enabled():
    raise ImportError(
        "aioproducer needs the GIL, and this Python runs without it: set PYTHON_GIL=1 in the "
        "environment, or use a build of Python that is not free-threaded"
    )


MODULES: Final = (
    "aioproducer.compat.confluent.records",
    "aioproducer.consumer.loops",
    "aioproducer.engine.accumulator.batch_queue",
    "aioproducer.engine.accumulator.memory_quota",
    "aioproducer.engine.accumulator.partition",
    "aioproducer.engine.accumulator.pending_records",
    "aioproducer.engine.accumulator.producer_batch",
    "aioproducer.engine.accumulator.record_accumulator",
    "aioproducer.engine.accumulator.results",
    "aioproducer.engine.accumulator.topic",
    "aioproducer.engine.accumulator.waiting",
    "aioproducer.engine.client.wakeup",
    "aioproducer.engine.metrics.producer_metrics",
    "aioproducer.engine.metrics.summary",
    "aioproducer.engine.network.connection_states",
    "aioproducer.engine.network.exchange",
    "aioproducer.engine.network.frames",
    "aioproducer.engine.network.network_client",
    "aioproducer.engine.records.entry_token",
    "aioproducer.engine.sender.batch_sender",
    "aioproducer.engine.sender.completer",
    "aioproducer.engine.sender.delivery_reports",
    "aioproducer.engine.sender.produce",
    "aioproducer.engine.sender.sender",
    "aioproducer.engine.transactions.sequence_numbers",
    "aioproducer.foundation.runtime.running_clock",
    "aioproducer.sync.inbox",
    "aioproducer.sync.record_outcome",
)


def is_source_wanted() -> bool:
    """True if the environment chooses the source."""
    return bool(os.environ.get("AIOPRODUCER_PURE_PYTHON"))


def _source(module: str) -> str:
    return path.join(path.dirname(path.dirname(__file__)), *module.split(".")[1:]) + ".py"


def _binary(module: str) -> str | None:
    """The compiled module; None: there is none."""
    base = _source(module).removesuffix(".py")
    return next((base + each for each in EXTENSION_SUFFIXES if path.exists(base + each)), None)


def is_checkout() -> bool:
    """True in a folder of the source, where what builds the package stands beside it."""
    root = path.dirname(path.dirname(path.dirname(__file__)))
    return path.exists(path.join(root, "compiled_types.py"))


def _is_stale(module: str, binary: str) -> bool:
    """True if ``binary`` is older than its source, in a checkout."""
    return is_checkout() and path.getmtime(_source(module)) > path.getmtime(binary)


def _loads(module: str, binary: str) -> bool:
    """True if ``binary`` can be loaded, and belongs to this import of the package.

    A compiled module exists once in a process: a second interpreter can't have it, and a second
    import gets the first one's module.
    """
    spec = spec_from_file_location(module, binary)
    assert spec is not None
    try:
        made = module_from_spec(spec)
    except ImportError:
        return False
    return not hasattr(made, "__test__")  # every executed module of Cython has this name


class _SourceFinder:
    """Finds the source of the compiled modules, before Python finds what was compiled from it."""

    @staticmethod
    def find_spec(fullname: str, _: object = None, target: object = None) -> ModuleSpec | None:
        """Called by Python's import."""
        if fullname not in MODULES or not path.exists(_source(fullname)):
            return None
        return spec_from_file_location(fullname, _source(fullname))


def _choose() -> None:
    binaries = {module: _binary(module) for module in MODULES}
    if not any(binaries.values()):
        return
    if is_source_wanted() or any(
        binary is None or _is_stale(module, binary) or not _loads(module, binary)
        for module, binary in binaries.items()
    ):
        sys.meta_path.insert(0, _SourceFinder)


_choose()


def in_use() -> bool:
    """True if the modules that the package has imported are the compiled ones."""
    found = (sys.modules[each] for each in MODULES if each in sys.modules)
    return all(isinstance(module.__loader__, ExtensionFileLoader) for module in found)
