"""The core of a producer: its life, the long way of a record, and Engine, which starts and ends the
parts.
"""
