"""The version, once."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("aioproducer")
except PackageNotFoundError:  # a checkout that was not installed
    __version__ = "0.0.0"
