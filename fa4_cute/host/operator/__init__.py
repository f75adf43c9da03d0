"""A call as torch sees it: one operator, and when a call has to go through it."""
