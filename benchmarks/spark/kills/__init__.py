"""Streams into Kafka whose processes are killed at random, and what is there in the end."""
