"""The same application by each framework and client, each as its user would write it.

A module is named ``FRAMEWORK_CLIENT`` and holds ``app``.
"""
