"""aiokafka's own tests of its producer and consumer, run with ours behind the same names.

::

    make aiokafka-tests AIOKAFKA_TESTS=/path/to/a/checkout/of/aiokafka

The checkout stays outside of this repository: its tests are copied into a temporary folder. They
run with aiokafka's clients and with ours, each time on a broker of their own. Each test that fails
with ours must have a reason in :mod:`tests.support.aiokafka_tests.differences`.
"""
