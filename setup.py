"""The steps of a build that pyproject.toml can't say: parallel compilation, the wheel's SBOM."""

import json
import re
from pathlib import Path
from typing import Any

import Cython
from Cython.Build import cythonize
from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext


class SideBySide(build_ext):
    """Cython translates all modules, and then the C compiler runs once on each processor.

    Cython itself must not run in several threads. A failure of the C compiler leaves a module out
    (``optional`` in pyproject.toml), and a failure of Cython ends the build: it is our mistake.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extensions(self) -> None:
        translated = cythonize(
            self.extensions,
            build_dir=self.build_temp,
            force=self.force,
            compiler_directives={"auto_pickle": False},  # no compiled object is pickled
        )
        for extension, in_c in zip(self.extensions, translated, strict=True):
            extension.sources = in_c.sources
        super().build_extensions()


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


setup(cmdclass={"build_ext": SideBySide, "bdist_wheel": WithSbom})
