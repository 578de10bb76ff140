"""From batches to requests, and from responses to outcomes."""
