"""The state of the cluster as it is known, and the times to ask again."""
