"""Reading records back, beside the consumers of other clients with assigned partitions."""
