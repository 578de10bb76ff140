"""What each room may import: the contracts of ``.importlinter``, and what they leave open."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aioproducer.foundation import compiled
from tests.documentation.public_api import MODULES as PUBLIC

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "aioproducer"
CONFIG = ROOT / ".importlinter"


def lint_imports(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", config, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_contracts_are_kept() -> None:
    linted = lint_imports(CONFIG)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "0 broken" in linted.stdout


@pytest.mark.parametrize(
    ("rule", "broken", "said"),
    [
        ("    asyncio\n", "    asyncio\n    random\n", "random"),
        ("    network\n    accumulator |", "    accumulator |", "network"),
        (
            "    sender | telemetry | groups\n    transactions\n    client\n",
            "    transactions\n    client\n    sender | telemetry\n",
            "aioproducer.engine.sender is not allowed to import aioproducer.engine.client",
        ),
    ],
    ids=["a module of the standard library", "a room that is not in the picture", "upward"],
)
def test_the_contracts_notice(rule: str, broken: str, said: str, tmp_path: Path) -> None:
    """Each kind of contract finds what it is there to find: here, by asking for too much."""
    text = CONFIG.read_text("utf-8")
    assert rule in text
    stricter = tmp_path / ".importlinter"
    stricter.write_text(text.replace(rule, broken, 1), "utf-8")
    linted = lint_imports(stricter)
    assert linted.returncode != 0
    assert said in linted.stdout


def test_every_module_of_a_pure_room_is_meant() -> None:
    """A new file beside the pure ones of network and sender is pure, or it is named here."""
    listed = CONFIG.read_text("utf-8")
    impure = {
        "engine/network": {
            "connection",
            "connection_states",
            "exchange",
            "login",
            "network_client",
            "timeouts",
            "transport",
        },
        "engine/sender": {
            "completer",
            "batch_sender",
            "compressor",
            "expiry",
            "producer_id",
            "refresher",
            "sender",
            "transaction_driver",
        },
        "engine/client": {
            "cluster_client",
            "connections",
            "environment",
            "offset_lookup",
            "requester",
            "wakeup",
        },
        "engine/telemetry": {"payload_maker", "requester"},
        "reader": {"fetcher", "positions", "reader", "record_source"},
    }
    for room, exceptions in impure.items():
        modules = {path.stem for path in (PACKAGE / room).glob("*.py")} - {"__init__"}
        assert exceptions <= modules
        for module in modules - exceptions:
            name = f"aioproducer/{room}/{module}".replace("/", ".")
            assert f"    {name}\n" in listed, f"{room}/{module}.py"


def imported(path: Path) -> set[str]:
    """The modules that a file imports anywhere, also inside functions and type checks."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


@pytest.mark.parametrize(
    "room", ["batch_sender", "completer", "expiry", "producer_id", "refresher"]
)
def test_what_carries_out_outcomes_neither_waits_nor_reads_a_clock(room: str) -> None:
    modules = imported(PACKAGE / "engine" / "sender" / f"{room}.py")
    assert not modules & {"asyncio", "time", "socket", "threading", "ssl"}


def test_only_the_shells_and_the_environment_read_a_clock() -> None:
    reading = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "time" in imported(path)
    }
    outside = ("cli", "observability", "testing", "spark", "compat")
    shells = {each for each in reading if each.split("/")[0] in outside}
    waits = {"sync/loop_thread.py", "sync/inbox.py"}  # of threads, outside of any loop
    called_by_applications = {"auth/http_exchange.py"}  # a client replaces it
    core = {"engine/client/environment.py", "engine/core/sending.py"}
    assert reading - shells <= core | waits | called_by_applications


PUBLIC_IN_PYSPARK = {
    "pyspark",
    "pyspark.accumulators",
    "pyspark.errors",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming.query",
    "pyspark.sql.types",
}


def private_in_pyspark(source: str) -> set[str]:
    """The modules and attributes in ``source`` that are not in PySpark's public API."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = {node.module}
        elif isinstance(node, ast.Import):
            modules = {each.name for each in node.names}
        elif isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            found |= {node.attr} - ({node.attr} if owner in ("self", "cls") else {"_core"})
            continue
        else:
            continue
        theirs = {each for each in modules if each.split(".")[0] in ("py4j", "pyspark")}
        found |= theirs - PUBLIC_IN_PYSPARK
    return found


def test_names_of_pyspark_that_are_not_public_stand_in_one_module() -> None:
    paths = [*(PACKAGE / "spark").glob("*.py"), ROOT / "pyspark_aioproducer.py"]
    using = {path.stem for path in paths if private_in_pyspark(path.read_text("utf-8"))}
    assert using == {"internals"}  # tests/spark/test_internals.py tries them


@pytest.mark.parametrize(
    "line",
    [
        "from py4j.protocol import Py4JError",
        "import pyspark.core.rdd",
        "spark.sparkContext._jvm.java",
        "def f(): return df._jdf",
    ],
)
def test_a_name_that_is_not_public_is_noticed(line: str) -> None:
    assert len(private_in_pyspark(line)) == 1
    assert not private_in_pyspark("from pyspark.sql import Row\nself._sc, producer._core.config")


def test_only_one_place_makes_tasks() -> None:
    """An application's factory of eager tasks would run them before their owner has them."""
    starting = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("create_task", "ensure_future")
    }
    core = {each for each in starting if each.split("/")[0] not in ("cli", "testing", "spark")}
    assert core == {"foundation/runtime/tasks.py"}


def test_importing_the_package_loads_no_shell_and_no_extra() -> None:
    code = "import aioproducer, sys; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ended.stdout.split())
    assert "aioproducer.producer" in loaded
    unwanted = {
        "typer",
        "rich",
        "click",
        "confluent_kafka",
        "uvloop",
        "pyspark",
        "fastavro",
        "gssapi",
        "httpx2",
    }
    unwanted |= {"aioproducer.schema_registry"}
    unwanted |= {
        "aioproducer.cli",
        "aioproducer.testing",
        "aioproducer.spark",
        "aioproducer.compat",
    }
    assert not loaded & unwanted


# --- tools that pack a program, such as PyInstaller, follow the import statements -------------


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> set[str]:
    """The modules that a file may import, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


SOURCES = {name_of(path): path for path in PACKAGE.rglob("*.py")}
IMPORTS = {name: imports_of(path) for name, path in SOURCES.items()}


def reached_from(name: str, *, unseen: tuple[str, ...] = ()) -> set[str]:
    """The modules of the package, and the packages beside it, that a module leads to.

    ``unseen``: modules in which no import statement is seen.
    """
    reached: set[str] = set()
    left = [name]
    while left:
        each = left.pop()
        parts = each.split(".")
        if parts[0] != PACKAGE.name:
            reached.add(parts[0])
            continue
        for size in range(1, len(parts) + 1):
            module = ".".join(parts[:size])
            if module in SOURCES and module not in reached:
                reached.add(module)
                left += () if module in unseen else IMPORTS[module]
    return reached


@pytest.mark.parametrize("module", [*PUBLIC, "aioproducer.consumer"])
def test_imports_of_compiled_modules_are_seen_elsewhere(module: str) -> None:
    """A packing tool reads bytecode, and a compiled module has none."""
    assert reached_from(module, unseen=compiled.MODULES) == reached_from(module)


NAMED_BY_TEXT = {
    "__init__.py": "the table of names, which stands under TYPE_CHECKING as well",
    "auth/providers.py": "import paths in options, which users write",
    "cli/app.py": "the commands",
    "engine/columnar/protobuf_plan.py": "Spark",
    "schema_registry/protobuf_schema.py": "generated modules, which users write",
    "serialization/__init__.py": "the table of names, which stands under TYPE_CHECKING as well",
    "testing/__init__.py": "the table of names, which stands under TYPE_CHECKING as well",
}
"""The only files that import modules by a text, and which ones."""


def test_few_modules_are_imported_by_a_text() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES.values()
        if re.search(r"\b(import_module|__import__)\(", path.read_text("utf-8"))
    }
    assert found == set(NAMED_BY_TEXT)


# --- code in foreign bytes ------------------------------------------------------------------------

RUNS_CODE = {
    "eval", "exec", "compile", "__import__", "import_module", "run_path", "run_module",
    "dill", "marshal", "pickle", "_pickle", "cloudpickle", "joblib", "shelve", "yaml",
    "read_pickle", "allow_pickle", "Unpickler", "CloudPickleSerializer", "CPickleSerializer",
}  # fmt: skip
"""Names by which bytes or a text become code, or objects of any class."""
ALLOWED = {
    ("__init__.py", "import_module"): "the package's own public names",
    ("testing/__init__.py", "import_module"): "the package's own public names",
    ("cli/app.py", "import_module"): "the package's own commands",
    ("auth/providers.py", "import_module"): "a provider that an option names: 'package.module:f'",
    ("engine/columnar/protobuf_plan.py", "import_module"): "modules of protobuf, by our names",
    ("engine/protocol/codec.py", "compile"): "decoders, from the tables of the package",
    ("engine/protocol/codec.py", "exec"): "decoders, from the tables of the package",
    (
        "schema_registry/avro_misfits.py",
        "exec",
    ): "names of a schema stand in it as literals of repr()",
    ("schema_registry/objects.py", "exec"): "the names of fields of the application's own classes",
    ("schema_registry/protobuf_schema.py", "__import__"): "google.protobuf and google.type alone",
    ("serialization/__init__.py", "import_module"): "the package's own public names",
    ("spark/source.py", "pickle"): "an error's class; Spark itself pickles a data source",
}
"""The uses that are left, by file and name, each with the reason why no peer chooses the code."""


def names_in(source: str, path: Path) -> set[str]:
    """The names of :data:`RUNS_CODE` that a module uses or imports; methods of others count, but
    ``re.compile()`` does not."""
    if path.suffix != ".py":  # Cython
        text = re.sub(r"#.*|\bre\.compile\b", "", source)
        return {name for name in RUNS_CODE if re.search(rf"\b{name}\b *[(.]|import {name}\b", text)}
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and not (
            node.attr == "compile" and isinstance(node.value, ast.Name) and node.value.id == "re"
        ):
            found.add(node.attr)
        elif isinstance(node, ast.keyword | ast.arg):
            found.add(str(node.arg))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for each in (*module, *(alias.name for alias in node.names)):
                found.update(each.split("."))
    return found & RUNS_CODE


def test_no_foreign_bytes_become_code() -> None:
    used = set()
    for path in [*PACKAGE.rglob("*.py*"), *ROOT.glob("*_aioproducer.py")]:
        if path.suffix in (".py", ".pyx", ".pxd"):
            for name in names_in(path.read_text("utf-8"), path):
                used.add((path.as_posix().removeprefix(f"{PACKAGE.as_posix()}/"), name))
    assert used == ALLOWED.keys()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import pickle\npickle.loads(x)", "pickle"),
        ("from pickle import loads", "pickle"),
        ("from pyspark.serializers import CloudPickleSerializer as S", "CloudPickleSerializer"),
        ("numpy.load(x, allow_pickle=True)", "allow_pickle"),
        ("f = eval\nf(x)", "eval"),
        ("builtins.exec(x)", "exec"),
        ("import os, yaml", "yaml"),
        ("pandas.read_pickle(x)", "read_pickle"),
    ],
)
def test_the_search_finds_what_runs_code(source: str, name: str) -> None:
    assert name in names_in(source, Path("x.py"))
    assert not names_in("re.compile(x)", Path("x.py"))
    assert names_in("cdef x = eval(y)", Path("x.pyx")) == {"eval"}
