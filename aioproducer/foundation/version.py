"""The version of the package: its only place, from which the build takes it as well.

``importlib.metadata`` would read it from the installation, but takes longer to import than the
producer.
"""

from typing import Final

__version__: Final = "1.0.0rc2"
"""The version of the package."""
