"""The producer's identity at the brokers: id, epoch, sequence numbers (KIP-98); transactions."""
