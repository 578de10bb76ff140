"""The compiled modules are built side by side, which pyproject.toml can't say; it lists them."""

from Cython.Build import cythonize
from setuptools import setup
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


setup(cmdclass={"build_ext": SideBySide})
