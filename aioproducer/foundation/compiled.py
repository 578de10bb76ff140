"""The Python that this package runs on: the interpreter, and compiled modules or their source.

The package needs CPython 3.11 or newer, with the GIL, on which the fast path and the compiled loops
rely: importing this module in a free-threaded build raises ImportError, unless it runs with the
GIL.

The choice between compiled modules and source is made once. Each of :data:`MODULES` is compiled
from its own source, and the build reads their types from their annotations (``compiled_types.py``,
at the top of the repository). The modules know each other's classes, so one library contains all
of them, and a finder on ``sys.meta_path`` loads each of them from there. It has one function
``PyInit_<name>`` for each, so the last parts of their names differ.

The source runs instead if ``AIOPRODUCER_PURE_PYTHON=1`` is in the environment, if the installation
had no compiler, if the library can't be loaded, or if a checkout has a source that is newer than
the library.

The innermost loops have a second form in ``_speedups.pyx`` files instead, which
``records/acceleration.py`` and ``columnar/encoder.py`` choose.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from os import path
from typing import Final

__all__ = [
    "MODULES",
    "has_loops",
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


LIBRARY: Final = "aioproducer.foundation._compiled"
"""The library that contains the compiled modules. As a module it is empty."""

MODULES: Final = (
    "aioproducer.compat.confluent.records",
    "aioproducer.consumer.assigned_partition",
    "aioproducer.consumer.loops",
    "aioproducer.consumer.progress",
    "aioproducer.consumer.workers",
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
    "aioproducer.engine.network.timeouts",
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


def has_loops(package: str) -> bool:
    """True if the compiled loops in ``package`` are to be used, if they can be imported.

    In a checkout they are not if they are older than their source.
    """
    if is_source_wanted():
        return False
    if not is_checkout():
        return True
    base = _source(f"{package}._speedups").removesuffix(".py")
    found = _built(base)
    return found is not None and path.getmtime(base + ".pyx") <= path.getmtime(found)


def is_checkout() -> bool:
    """True in a checkout, where ``compiled_types.py`` lies beside the package."""
    return path.exists(_TYPES)


_PACKAGE: Final = path.dirname(path.dirname(__file__))
_TYPES: Final = path.join(path.dirname(_PACKAGE), "compiled_types.py")


def _source(module: str) -> str:
    return path.join(_PACKAGE, *module.split(".")[1:]) + ".py"


def _built(base: str) -> str | None:
    """The extension module at ``base``, a path without its suffix."""
    return next((base + each for each in EXTENSION_SUFFIXES if path.exists(base + each)), None)


def _library() -> str | None:
    """The library, if it can be used."""
    base = _source(LIBRARY).removesuffix(".py")
    found = _built(base)
    if found is None or (is_source_wanted() and _has_sources()):
        return None
    return found if not _is_stale(found) and _is_ours() else None


def _has_sources() -> bool:
    """False in a frozen application."""
    return path.exists(_source(MODULES[0]))


def _is_stale(library: str) -> bool:
    """True if ``library`` is older than a source, their list or their types, in a checkout."""
    sources = (__file__, _TYPES, *map(_source, MODULES))
    return is_checkout() and max(map(path.getmtime, sources)) > path.getmtime(library)


def _is_ours() -> bool:
    """True if the library can be loaded, and belongs to this import of the package.

    A compiled module exists once in a process: a second interpreter can't have it, and a second
    import gets the first one's module.
    """
    try:
        # Packing tools find the library by this statement.
        from aioproducer.foundation import _compiled as library  # type: ignore[attr-defined]
    except ImportError:
        return False
    is_ours = not hasattr(library, "is_taken")
    library.is_taken = True
    return is_ours


class _Finder:
    """Finds the compiled modules in the library. Without it, finds their source.

    An extension module beside a source may be left over from an older release: it is ignored.
    """

    library = _library()

    @classmethod
    def find_spec(cls, fullname: str, _: object = None, target: object = None) -> ModuleSpec | None:
        """Called by Python's import."""
        if fullname not in MODULES:
            return None
        if cls.library is not None:
            return _spec(ExtensionFileLoader(fullname, cls.library))
        source = _source(fullname)
        return _spec(SourceFileLoader(fullname, source)) if path.exists(source) else None


def _spec(loader: ExtensionFileLoader | SourceFileLoader) -> ModuleSpec:
    """``importlib.util`` has a function for this, but takes a millisecond to import."""
    spec = ModuleSpec(loader.name, loader, origin=str(loader.path))
    spec.has_location = True
    return spec


sys.meta_path.insert(0, _Finder)


def in_use() -> bool:
    """True if the package imports the compiled modules, and not their source."""
    return _Finder.library is not None
