"""The steps of a build that pyproject.toml can't say: what is compiled, the wheel's SBOM, and the
README with links that work outside of the repository.
"""

import ast
import json
import os
import re
import shutil
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import Cython
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # a build has no path to what stands beside setup.py

from compiled_types import Types  # noqa: E402


def compiled_from_source(name: str) -> Any:
    """A constant of ``aioproducer/foundation/compiled.py``, read without an import."""
    text = (ROOT / "aioproducer" / "foundation" / "compiled.py").read_text("utf-8")
    for each in ast.parse(text).body:
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name:
            return ast.literal_eval(each.value)
    raise LookupError(f"compiled.py has no {name}")


LIBRARY = compiled_from_source("LIBRARY")
MODULES = compiled_from_source("MODULES")


def extensions() -> list[Extension]:
    """The innermost loops (``.pyx``), and one library of the modules in ``MODULES``.

    Those call Python more than they compute: -O1 makes them as fast as -O2, in two thirds of the
    time. -Og makes them slower by a fifth. The warnings of Python's own -Wall would cost a sixth of
    the time, for generated code. Without a compiler the Python source does the work.
    """
    loops = sorted(path.relative_to(ROOT) for path in ROOT.glob("aioproducer/**/*.pyx"))
    modules = [name.replace(".", "/") + ".py" for name in MODULES]
    return [
        Extension(name, sources, extra_compile_args=[level, "-g0", "-Wno-all"], optional=True)
        for name, sources, level in [
            *((".".join(path.with_suffix("").parts), [str(path)], "-O2") for path in loops),
            (LIBRARY, modules, "-O1"),
        ]
    ]


class SideBySide(build_ext):
    """Cython translates all modules, and then the C compiler runs once on each processor.

    Cython itself must not run in several threads. A failure of the C compiler leaves a library out,
    and a failure of Cython ends the build: it is our mistake.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extensions(self) -> None:
        types = Path(self.build_temp, "types")
        has_changed = Types(ROOT, MODULES).write(types)
        self.force = self.force or has_changed  # Cython looks for types beside the sources only
        *loops, library = self.extensions
        modules = [
            Extension(name, [source])
            for name, source in zip(
                [*MODULES, LIBRARY], [*library.sources, self._library_itself()], strict=True
            )
        ]
        try:
            loops_in_c = self._translated(loops, types, {})
            directives = {"annotation_typing": False, "nonecheck": True}
            modules_in_c = self._translated(modules, types, directives)
        except BaseException:
            if has_changed:  # the next build translates all modules by the new types
                shutil.rmtree(types)
            raise
        for extension, in_c in zip(loops, loops_in_c, strict=True):
            extension.sources = in_c.sources
        library.sources = [source for each in modules_in_c for source in each.sources]
        for source in library.sources:
            if "__Pyx_CFunc_" in Path(source).read_text("utf-8"):
                raise ValueError(f"{source}: a method of C is a value, and would lose its object")
        with ThreadPoolExecutor(os.cpu_count()) as self._processors:
            super().build_extensions()

    def build_extension(self, extension: Extension) -> None:
        """Compile what has changed, and link. After a failure there is no older library either."""
        library = Path(self.get_ext_fullpath(extension.name))
        compiled = partial(self._compiled, library, extension.extra_compile_args)
        try:
            objects = [*self._processors.map(compiled, extension.sources)]
            extension.sources, extension.depends, extension.extra_objects = [], objects, objects
            super().build_extension(extension)
        except BaseException:
            library.unlink(missing_ok=True)
            raise

    def _compiled(self, library: Path, options: list[str], source: str) -> str:
        """The object of a source in C. One that is older than the library is part of it."""
        [made] = self.compiler.object_filenames([source], output_dir=self.build_temp)
        if self.force or newer(source, library):
            self.compiler.compile([source], output_dir=self.build_temp, extra_postargs=options)
        return made

    def _library_itself(self) -> str:
        """The source of the module whose name the library has, which contains nothing."""
        source = Path(self.build_temp, LIBRARY.rpartition(".")[2] + ".py")
        if not source.exists():
            source.write_text('"""The library of compiled modules."""\n', "utf-8")
        return str(source)

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


def readme() -> str:
    """README.md, whose links lead to the repository's files of this version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = (ROOT / "aioproducer" / "foundation" / "version.py").read_text("utf-8")
    tag = "v" + re.search(r'__version__: Final = "(.+)"', version)[1]
    repository = project["urls"]["Repository"]

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository}/{kind}/{tag}/{link['path']})"

    link = r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<path>[^)#:][^):]*)\)"
    return re.sub(link, absolute, (ROOT / "README.md").read_text("utf-8"))


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": SideBySide, "bdist_wheel": WithSbom},
    long_description=readme(),
    long_description_content_type="text/markdown",
)
