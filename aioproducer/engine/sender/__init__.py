"""Batches become requests, and responses become outcomes."""
