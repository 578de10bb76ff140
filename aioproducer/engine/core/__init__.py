"""The core of a producer: its life, the ways of a record, and Engine, which starts and ends the
parts.
"""
