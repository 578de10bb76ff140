"""Measures aioproducer beside other Kafka producers: ``python -m benchmarks``, or ``make bench``.

A measurement is one *workload* (`workloads.py`: what is sent, and in which shape) done once by one
*client* (`clients/`: who sends it, with the settings of `defaults.py` or `tuned.py`) in a process
of its own (`client.py`, `measure.py`; Kafka's own tool by `producer_performance.py`), to *brokers*
(`brokers.py`). `runner.py` interleaves the clients round by round and has the log itself
confirm what a client claims; `metrics.py` has every number that there can be; `summary.py` and
`report.py` make one table per workload of them, `page.py` and `plots.py` a page. `suite.py` runs
every program, and `recorded.py` keeps the tables from which the documentation draws its figures.
`README.md` has the rules and the commands, and `RESULTS.md` the figures.

A new workload is a row in `workloads.py`, and settings of the clients that can do it; only a new
shape is a method of the drivers. A new client is a row in `clients/__init__.py` and a driver.

The other programs have their own rounds: `web/` (a web application under load), `new_process/` (the
first record of a process), `produce_lines.py` (the command line), and those that the README names.
"""
