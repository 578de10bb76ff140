"""The parts of a running producer, below what users hold."""
