"""The tasks and threads of a producer."""
