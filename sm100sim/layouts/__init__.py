"""Address maths of the ISA in plain Python: descriptors, swizzles, Tensor Memory maps."""
