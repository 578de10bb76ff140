"""Measures web applications that send a record per request: ``python -m benchmarks.web``.

A run is one application (`apps/` has the frameworks, `clients/` the clients; the *null app* answers
without sending) in a server process of its own (`server.py`: uvicorn with httptools, or aiohttp's
server, on uvloop), under load from wrk (`wrk.py`) with a number of connections, beside the mock
cluster. `plan.py` has the applications, `run.py` interleaves the runs and checks them, `summary.py`
and `report.py` make a table per framework of them.
"""
