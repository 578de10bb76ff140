"""Objects that the garbage collector need not visit, because no cycle goes through them.

This module is the reference, which does nothing; ``_speedups/cpython_internals.pyx`` is the
compiled form.
"""

from __future__ import annotations


def hide(each: object) -> None:
    """Hide ``each`` from the garbage collector.

    The traceback of an error leads to frames. So :func:`show` what their variables refer to, before
    an error is kept by something that ``each`` leads to.
    """


def show(each: object) -> None:
    """Show ``each`` to the garbage collector again, if it was hidden."""
