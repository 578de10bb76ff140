"""A live view of producers in a terminal.

::

    snapshot.py   series of one moment, by producer
    quantiles.py  quantiles from the buckets of a histogram
    figures.py    two snapshots → the figures of the time between them
    rendering.py  figures → tables of rich, and lines
    live_view.py  the view of producers of this process
"""

from aioproducer.observability.live.live_view import LiveView

__all__ = ["LiveView"]
