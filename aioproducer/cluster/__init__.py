"""What is known of the cluster, and when to ask again."""
