# A kernel launched by Mojo's own host code; checks its own result.
from max.gpu import thread_idx, block_idx, block_dim
from max.gpu.host import DeviceContext

def scale(out_: Pointer[Float32, MutAnyOrigin], x: Pointer[Float32, MutAnyOrigin], a: Float32, n: Int32):
    var i = Int(block_idx.x * block_dim.x + thread_idx.x)
    if i < Int(n):
        out_[unsafe_offset=i] = x[unsafe_offset=i] * a + 1.0

def main() raises:
    with DeviceContext() as ctx:
        var n = 100
        var x = ctx.enqueue_create_buffer[DType.float32](n)
        var y = ctx.enqueue_create_buffer[DType.float32](n)
        with x.map_to_host() as h:
            for i in range(n):
                h[i] = Float32(i)
        ctx.enqueue_function[scale](y, x, Float32(2), Int32(n), grid_dim=1, block_dim=128)
        with y.map_to_host() as h:
            for i in range(n):
                if h[i] != Float32(2 * i + 1):
                    raise Error("wrong")
        print("right")
