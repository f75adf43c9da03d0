"""What the roles read: pages, scales, stale values, and scores on their way to the softmax."""
