"""Handlers of the CUDA runtime API, on those of the driver API."""
