"""Kernels of others, and variants of ours, that judge the machine: asked, recorded, predicted."""
