"""What SMs share: barriers and memory of a cluster, and rows that many of them copy."""
