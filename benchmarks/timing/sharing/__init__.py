"""What SMs share: barriers and memory of a cluster's other CTAs, and rows that many of them copy."""
