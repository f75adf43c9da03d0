"""The fake CUDA runtime which takes the device's place under a CuTe DSL program."""
