"""The core of a producer: its life, the paths of a record, and Engine, which starts and ends the
parts.
"""
