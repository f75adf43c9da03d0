"""A second opinion on what the engine computes: descriptors and Tensor Memory addresses of the ISA.

Written apart from the engine, in another form (nested shapes and strides where that has closed
formulas), so that tests can compare the two. Nothing in sm100sim uses it.
"""
