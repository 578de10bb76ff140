"""The steps of a build that pyproject.toml can't say: what is compiled, and the wheel's SBOM."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import Cython
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # a build has no path to what stands beside setup.py

from compiled_types import Types  # noqa: E402


def compiled_from_source() -> tuple[str, ...]:
    """The modules that ``aioproducer/foundation/compiled.py`` lists, read without an import."""
    text = (ROOT / "aioproducer" / "foundation" / "compiled.py").read_text("utf-8")
    for each in ast.parse(text).body:
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "MODULES":
            return tuple(ast.literal_eval(each.value))
    raise LookupError("compiled.py lists no MODULES")


MODULES = compiled_from_source()


def extensions() -> list[Extension]:
    """The innermost loops (``.pyx``), and the modules that are compiled from their source.

    Those call Python more than they compute: -O1 makes them as fast as -O2, in two thirds of the
    time. -Og makes them slower by a fifth. Without a compiler the Python source does the work.
    """
    loops = sorted(path.relative_to(ROOT) for path in ROOT.glob("aioproducer/**/*.pyx"))
    return [
        Extension(name, [source], extra_compile_args=[level, "-g0"], optional=True)
        for name, source, level in [
            *((".".join(path.with_suffix("").parts), str(path), "-O2") for path in loops),
            *((name, name.replace(".", "/") + ".py", "-O1") for name in MODULES),
        ]
    ]


class SideBySide(build_ext):
    """Cython translates all modules, and then the C compiler runs once on each processor.

    Cython itself must not run in several threads. A failure of the C compiler leaves a module out,
    and a failure of Cython ends the build: it is our mistake.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extensions(self) -> None:
        types = Path(self.build_temp, "types")
        has_changed = Types(ROOT, MODULES).write(types)
        self.force = self.force or has_changed  # Cython looks for types beside the sources only
        loops = [each for each in self.extensions if each.name not in MODULES]
        modules = [each for each in self.extensions if each.name in MODULES]
        try:
            translated = [
                *self._translated(loops, types, {}),
                *self._translated(modules, types, {"annotation_typing": False, "nonecheck": True}),
            ]
        except BaseException:
            if has_changed:  # the next build translates all modules by the new types
                shutil.rmtree(types)
            raise
        for extension, in_c in zip([*loops, *modules], translated, strict=True):
            extension.sources = in_c.sources
        super().build_extensions()

    def _translated(
        self, extensions: list[Extension], types: Path, directives: dict[str, bool]
    ) -> Any:
        return cythonize(
            extensions,
            build_dir=self.build_temp,
            force=self.force,
            include_path=[str(types)],
            # no compiled object is pickled
            compiler_directives={"auto_pickle": False, "binding": False, **directives},
            language_level=3,
        )


class WithSbom(bdist_wheel):
    """A wheel lists what it contains and needs in ``.dist-info/sboms`` (PEP 770, CycloneDX)."""

    def write_wheelfile(self, wheelfile_base: str, *others: Any, **options: Any) -> None:
        super().write_wheelfile(wheelfile_base, *others, **options)
        place = Path(wheelfile_base, "sboms", "aioproducer.cdx.json")
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(self._bill(), indent=2) + "\n", "utf-8")

    def _bill(self) -> dict[str, Any]:
        """Equal for equal sources: it has neither a time nor a serial number."""
        of = self.distribution
        main = _component(of.get_name(), of.get_version())
        main["licenses"] = [{"license": {"id": "Apache-2.0"}}]
        parts = [_required(each) for each in of.install_requires]
        if of.has_ext_modules():
            cython = _component("cython", Cython.__version__)
            parts.append(cython | {"description": "Its C code is part of the compiled modules."})
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"lifecycles": [{"phase": "build"}], "component": main},
            "components": parts,
            "dependencies": [
                {"ref": main["bom-ref"], "dependsOn": [each["bom-ref"] for each in parts]}
            ],
        }


def _component(name: str, version: str | None = None) -> dict[str, Any]:
    url = f"pkg:pypi/{name}" if version is None else f"pkg:pypi/{name}@{version}"
    found = {"type": "library", "bom-ref": url, "name": name, "purl": url}
    return found if version is None else found | {"version": version}


def _required(requirement: str) -> dict[str, Any]:
    """A dependency that is installed with the wheel, in the version that the installer chooses."""
    name = re.match(r"[\w.-]+", requirement)[0]
    written = {"name": "aioproducer:requirement", "value": requirement}
    return _component(name) | {"scope": "required", "properties": [written]}


setup(ext_modules=extensions(), cmdclass={"build_ext": SideBySide, "bdist_wheel": WithSbom})
