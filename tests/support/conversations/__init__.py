"""Scripted conversations: the same requests for a real Kafka and for the model of one."""
