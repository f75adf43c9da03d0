"""Modular's own attention kernels for Blackwell beside this package's, on the virtual SM100.

Nothing of theirs is here: PyPI ``max-core`` brings kernels, dispatch and compiler into an
environment of its own, and the programs in ``mojo`` call them.
"""
