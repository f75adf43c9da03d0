"""A CuTe DSL program for the activation tests; imported only under ``sm100sim.activate()``."""

import cutlass
from cutlass import cute


@cute.kernel
def add_kernel(values: cute.Tensor, amount: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    index = block * 32 + thread
    values[index] = values[index] + amount


@cute.jit
def add(values: cute.Tensor, amount: cutlass.Float32) -> None:
    add_kernel(values, amount).launch(grid=[2, 1, 1], block=[32, 1, 1], cluster=[2, 1, 1])


@cute.kernel
def scale_kernel(values: cute.Tensor, amount: cutlass.Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    values[thread] = values[thread] * amount


@cute.jit
def scale(values: cute.Tensor, amount: cutlass.Float32) -> None:
    scale_kernel(values, amount).launch(grid=[1, 1, 1], block=[64, 1, 1])


class Apply:
    """Two objects of this class compile to kernels of one name and different code."""

    def __init__(self, multiply: bool):
        self.multiply = multiply

    @cute.jit
    def __call__(self, values: cute.Tensor, amount: cutlass.Float32) -> None:
        self.kernel(values, amount).launch(grid=[1, 1, 1], block=[64, 1, 1])

    @cute.kernel
    def kernel(self, values: cute.Tensor, amount: cutlass.Float32) -> None:
        thread, _, _ = cute.arch.thread_idx()
        if cutlass.const_expr(self.multiply):
            values[thread] = values[thread] * amount
        else:
            values[thread] = values[thread] + amount
