"""The same program on aiokafka's producer and on ours with its interface."""
