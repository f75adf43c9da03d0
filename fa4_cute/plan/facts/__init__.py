"""Facts of the hardware, of element types and of bit layouts."""
