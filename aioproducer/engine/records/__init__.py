"""Record batches as Kafka stores them (magic 2, KIP-98), their checksum and their compression."""
