"""CuTe as a witness: its layouts, descriptors and Tensor Memory maps against those of the plans."""
