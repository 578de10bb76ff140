"""The tables of the messages that are spoken. :mod:`aioproducer.engine.protocol` explains them."""
