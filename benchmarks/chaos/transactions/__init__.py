"""Numbered transactions while brokers die and clients are replaced, some of them not dead.

A run is an application that consumes, transforms and produces (`application.py`): each transaction
writes one record to each of several topics and moves the group's offset. It runs in a process of
its own on a Kafka of three brokers behind fault proxies, which the `Disturber` disturbs, while a
`Replacer` kills the process, or starts its successor beside it. The successor goes on where the
group's offset is. Each process writes down what it was told (`journal.py`); then the topics are
read back by a consumer that is not ours, and `verdict.py` compares.

The same seed gives the same plan. What it meets depends on the clock, so a run is alike, not the
same.
"""
