"""Where records wait to be sent: batches per partition, in memory that is bounded."""
