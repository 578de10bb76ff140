"""Who the producer is to the brokers: its id, its epoch, its sequence numbers (KIP-98)."""
