"""From a compiled kernel to results: pack parameters, launch, on a device or simulated."""
