"""Compiled modules: their types, the choice between them and their source, and the interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

import pytest

import aioproducer
from aioproducer.foundation.compiled import LIBRARY, MODULES
from compiled_types import Types

ROOT = Path(aioproducer.__file__).parent.parent
SAY = (
    "import aioproducer.compat.confluent, aioproducer.consumer, sys;"
    "from aioproducer.foundation.compiled import MODULES, in_use;"
    "print(in_use(), *{sys.modules[each].__file__.endswith('.py') for each in MODULES})"
)
LOOPS = (
    "from aioproducer.engine.columnar import encoder; from aioproducer.engine.records import"
    " acceleration; print(*[each.__package__.rpartition('.')[2] for each in (acceleration, encoder)"
    " if each.ACCELERATED])"
)
COMPILED, SOURCE = "True False", "False True"
needs_compiled = pytest.mark.skipif(
    not aioproducer.__accelerated__, reason="nothing is compiled here"
)


def said(folder: Path, pure: str = "", code: str = SAY) -> str:
    environment = os.environ | {"AIOPRODUCER_PURE_PYTHON": pure, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return ended.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package, with the times of its files, and of what compiles it."""
    shutil.copytree(ROOT / "aioproducer", tmp_path / "aioproducer")
    shutil.copy2(ROOT / "compiled_types.py", tmp_path)
    return tmp_path


def source(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split(".")).with_suffix(".py")


def library(folder: Path) -> Path:
    """The library of compiled modules."""
    base = folder.joinpath(*LIBRARY.split("."))
    [found] = (path for s in EXTENSION_SUFFIXES if (path := Path(f"{base}{s}")).exists())
    return found


def touch(path: Path, folder: Path) -> None:
    """Make ``path`` newer than the library."""
    later = library(folder).stat().st_mtime + 1
    os.utime(path, (later, later))


@needs_compiled
def test_compiled_modules_are_used_unless_the_environment_says_otherwise() -> None:
    assert said(ROOT) == COMPILED
    assert said(ROOT, pure="1") == SOURCE


@needs_compiled
def test_a_checkout_with_a_newer_source_runs_the_source(checkout: Path) -> None:
    assert said(checkout) == COMPILED
    touch(source(checkout, MODULES[5]), checkout)
    assert said(checkout) == SOURCE


@needs_compiled
@pytest.mark.parametrize("name", ["aioproducer/foundation/compiled.py", "compiled_types.py"])
def test_a_checkout_with_a_newer_list_or_newer_types_runs_the_source(
    name: str, checkout: Path
) -> None:
    touch(checkout / name, checkout)
    assert said(checkout) == SOURCE


@needs_compiled
@pytest.mark.parametrize("room", ["records", "columnar"])
def test_a_checkout_with_newer_loops_runs_their_references(room: str, checkout: Path) -> None:
    touch(checkout / "aioproducer" / "engine" / room / "_speedups.pyx", checkout)
    assert {*said(checkout, code=LOOPS).split()} == {"records", "columnar"} - {room}


@needs_compiled
@pytest.mark.parametrize("pure", ["", "1"])
def test_a_module_that_an_older_release_compiled_is_not_used(checkout: Path, pure: str) -> None:
    of_old = source(checkout, MODULES[5]).with_suffix(EXTENSION_SUFFIXES[0])
    of_old.write_bytes(b"of an older release")
    assert said(checkout, pure) == (SOURCE if pure else COMPILED)
    library(checkout).unlink()
    assert said(checkout, pure) == SOURCE


@needs_compiled
def test_the_times_of_an_installation_mean_nothing(checkout: Path) -> None:
    (checkout / "compiled_types.py").unlink()
    for module in MODULES:
        touch(source(checkout, module), checkout)
    assert said(checkout) == COMPILED


@needs_compiled
def test_without_a_compiler_the_source_runs(checkout: Path) -> None:
    library(checkout).unlink()
    assert said(checkout) == SOURCE


@needs_compiled
def test_a_library_that_can_not_be_loaded_is_not_used(checkout: Path) -> None:
    binary = library(checkout)
    binary.unlink()
    binary.write_bytes(b"of another machine")
    assert said(checkout) == SOURCE


@needs_compiled
def test_sources_that_are_not_there_are_not_looked_for(checkout: Path) -> None:
    """A frozen application has only the compiled modules."""
    for module in MODULES:
        source(checkout, module).unlink()
    (checkout / "compiled_types.py").unlink()
    assert said(checkout, pure="1") == COMPILED


AGAIN = """
import sys
from unittest import mock
with mock.patch.dict(sys.modules):
    import aioproducer
    first = aioproducer.errors.BufferExhaustedError
import aioproducer
from aioproducer.engine.accumulator import waiting
assert waiting.BufferExhaustedError is aioproducer.BufferExhaustedError
print(aioproducer.__accelerated__, aioproducer.BufferExhaustedError is first)
"""


def test_a_second_import_gets_classes_of_its_own() -> None:
    command = [sys.executable, "-c", AGAIN]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "False False\n"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="other interpreters take no such modules")
def test_a_second_interpreter_runs_the_source() -> None:
    second = f"import sys; sys.path[:] = {[str(ROOT), *sys.path]!r}; {SAY}"
    code = f"""
import aioproducer, _xxsubinterpreters as interpreters
interpreters.run_string(interpreters.create(), {second!r})
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == SOURCE


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def test_an_interpreter_without_the_gil_is_refused() -> None:
    ended = run("import sys; sys._is_gil_enabled = lambda: False; import aioproducer")
    assert ended.returncode
    assert "ImportError: aioproducer needs the GIL, and this Python runs without it" in ended.stderr
    assert "PYTHON_GIL=1" in ended.stderr


def test_a_free_threaded_build_with_the_gil_is_accepted() -> None:
    ended = run("import sys; sys._is_gil_enabled = lambda: True; import aioproducer")
    assert (ended.returncode, ended.stderr) == (0, "")


LIKE_WINDOWS: Final = """
import asyncio, concurrent.futures, multiprocessing, os, signal, socket, ssl, subprocess, sys
import tempfile, uuid
for module in ("fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty", "uvloop"):
    sys.modules[module] = None
for owner, names in {
    os: "fork forkpty register_at_fork getuid geteuid memfd_create sched_getaffinity fchmod",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE alarm setitimer pthread_sigmask",
    socket: "TCP_INFO SO_REUSEPORT SO_PEERCRED",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)

import aioproducer, aioproducer.admin, aioproducer.cli.app, aioproducer.loops, aioproducer.reader
import aioproducer.observability.live, aioproducer.observability.log_handler
import aioproducer.schema_registry, aioproducer.serialization, aioproducer.sync
for name in aioproducer.__all__:
    getattr(aioproducer, name)


async def main():
    async with aioproducer.Producer(bootstrap_servers="localhost:1", max_block_ms=200) as producer:
        try:
            await producer.send("orders", b"one espresso")
        except aioproducer.BootstrapError:
            print("made")

aioproducer.loops.run(main())
"""
"""What Windows lacks is taken away, after the standard library has taken what it needs itself."""


def test_a_producer_needs_nothing_that_windows_lacks() -> None:
    ended = run(LIKE_WINDOWS)
    assert (ended.returncode, ended.stdout) == (0, "made\n"), ended.stderr


# --- the types of compiled modules ----------------------------------------------------------------

QUEUE = """
from typing import TYPE_CHECKING, NamedTuple, Protocol
from package.model import BigInt
if TYPE_CHECKING:
    from package.front import Reader

class Wake(Protocol):
    def __call__(self) -> None: ...

class Item:
    __slots__ = ("name", "offset", "size")
    def __init__(self, name: str, offset: BigInt, size: int) -> None:
        self.name = name
        self.offset = offset
        self.size = size

class Queue:
    def __init__(self, wake: Wake, reader: Reader, last: Item | None, limit: float | None) -> None:
        self.items: list[Item] = []
        self.due = 0.5
        self.last = last
        self.limit = limit
        self.open = True
        self._reader = reader
        self._wake = wake

    def take(self, most: int = 1) -> Item | None:
        size: int = self.items[0].size
        return self.last

    def is_due(self, now: float) -> bool:
        return now >= self.due

    def names(self):
        yield from self.items

    def quiet(self) -> None:
        self._wake()

    def close(self, *, now: float) -> None:
        self.quiet()
"""
READER = """
from package.front import Queue

class Reader:
    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def step(self, now: float) -> bool:
        return self.queue.is_due(now)

class Quick(Reader):
    pass
"""
OF_QUEUE = """\
cimport cython
cdef class Item
cdef class Queue
@cython.final
cdef class Item():
    pass
    cdef public object name
    cdef public object offset
    cdef public long long size
@cython.final
cdef class Queue():
    pass
    cdef object __weakref__
    cdef public list items
    cdef public double due
    cdef public Item last
    cdef public object limit
    cdef public bint open
    cdef public object _reader
    cdef public object _wake
    @cython.locals(size="long long")
    cpdef Item take(self, long long most=*)
    cpdef bint is_due(self, double now) except -1
    cpdef object quiet(self)
"""
OF_READER = """\
cimport cython
from package.queue cimport Queue as CQueue
cdef class Reader
cdef class Quick
cdef class Reader():
    pass
    cdef object __weakref__
    cdef public CQueue queue
@cython.final
cdef class Quick(Reader):
    pass
"""


@pytest.fixture
def types(tmp_path: Path) -> Types:
    sources = {"queue": QUEUE, "reader": READER, "front": "from package.queue import Queue\n"}
    (tmp_path / "package").mkdir()
    for name, text in sources.items():
        (tmp_path / "package" / f"{name}.py").write_text(text, "utf-8")
    return Types(tmp_path, ["package.queue", "package.reader"])


def test_types_follow_from_annotations(types: Types) -> None:
    assert types.pxd("package.queue") == OF_QUEUE
    assert types.pxd("package.reader") == OF_READER


def test_a_class_that_a_test_derives_from_is_not_final(types: Types, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_queue.py").write_text("class Watched(Queue):\n    pass\n", "utf-8")
    declared = Types(tmp_path, types.modules).pxd("package.queue")
    assert declared == OF_QUEUE.replace("@cython.final\ncdef class Queue", "cdef class Queue")


def test_types_are_written_once(types: Types, tmp_path: Path) -> None:
    assert types.write(tmp_path / "types")
    assert not types.write(tmp_path / "types")
    written = tmp_path / "types" / "package" / "queue.pxd"
    assert written.read_text("utf-8") == OF_QUEUE
    assert written.with_name("__init__.pxd").exists()
    written.write_text("cimport cython\n", "utf-8")
    assert types.write(tmp_path / "types")


def test_each_module_is_compiled_with_the_types_of_its_classes() -> None:
    """An int of any size, such as an offset that a broker gives, is no number of C."""
    types = Types(ROOT, MODULES)
    assert {*types.modules} == {*MODULES}
    batches = types.pxd("aioproducer.engine.accumulator.producer_batch")
    assert "cdef public object base_offset\n" in batches
    assert "cdef public double deadline\n" in batches
