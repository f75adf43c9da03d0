"""Address maths of tensor copies in plain Python: swizzles and tensor maps."""
