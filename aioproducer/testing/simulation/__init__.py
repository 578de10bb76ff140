"""A simulated world: Kafka, networks and clients on one virtual clock, from one seed."""
