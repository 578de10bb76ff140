"""The producer seen from outside: traces, metrics for other systems, live view, log handler."""
