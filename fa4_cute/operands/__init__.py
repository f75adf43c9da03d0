"""What the roles read: pages, scales, stale values, products, and scores before the softmax."""
