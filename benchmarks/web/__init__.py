"""Measures web applications that send a record per request: ``python -m benchmarks.web``.

A run is one application (`apps/`: a framework with a client, or the *null app*, which answers
without sending) in a server process of its own (`server.py`: uvicorn with uvloop and httptools),
under load from wrk (`wrk.py`) with a number of connections, beside the mock cluster. `plan.py` has
the applications, `run.py` interleaves the runs and checks them, `summary.py` and `report.py` make a
table per framework of them.
"""
