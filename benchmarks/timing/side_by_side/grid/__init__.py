"""Which keys the query tiles of a launch see, in what order, and what of them comes from memory."""
