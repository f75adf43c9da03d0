"""Maps of shared memory and Tensor Memory, and the rings in them."""
