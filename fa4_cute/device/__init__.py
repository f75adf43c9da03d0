"""Device primitives: what one thread or one warp does, with no knowledge of roles or order."""
