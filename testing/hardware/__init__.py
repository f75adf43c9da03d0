"""Micro-kernels that ran on a real H200: how they are recorded, replayed and described."""
