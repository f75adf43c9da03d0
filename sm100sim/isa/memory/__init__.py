"""Memory accesses and asynchronous copies."""
