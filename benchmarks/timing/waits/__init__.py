"""Waits of a kernel one by one, on a GPU and on the clocked machine, of the same PTX."""
