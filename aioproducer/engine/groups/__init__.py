"""Consumer groups: who reads which partitions. No I/O."""
