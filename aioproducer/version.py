"""The version of the package; a test compares it with ``pyproject.toml``.

``importlib.metadata`` would read it from the installation, but takes longer to import than the
producer.
"""

from typing import Final

__version__: Final = "0.1.0"
