"""The tensor core instructions of sm_90a, which a warpgroup executes together."""
