"""aiokafka's own tests of its producer, run with ours behind the same name.

::

    make aiokafka-tests AIOKAFKA_TESTS=/path/to/a/checkout/of/aiokafka

The checkout stays outside of this repository: its tests are copied into a temporary folder. They
run twice on one broker, with aiokafka's producer and with ours. Each test that fails with ours must
have a reason in :mod:`tests.support.aiokafka_tests.differences`.
"""
