# MLA decode, one query per sequence, through Modular's public entry point.
#
#   decode FOLDER BATCH KEYS SCALE
#
# q.bin (BATCH, heads, 576), cache.bin (BATCH, KEYS, 576), whose first 512 columns are the values;
# o.bin (BATCH, heads, 512).
from std.sys import argv
from std.sys.defines import get_defined_int
from layout import Coord, Idx, TileTensor, row_major
from max.gpu.host import DeviceContext
from nn.attention.gpu.mla import flare_mla_decoding
from nn.attention.gpu.nvidia.sm100.mla_decode_dispatch import MLADispatchScalarArgs
from nn.attention.mha_mask import CausalMask
from nn.attention.mha_utils import MHAConfig
from raw_files import read_into, write_from

comptime heads = get_defined_int["heads", 128]()


def main() raises:
    var words = argv()
    var folder = String(words[1])
    var batch = Int(words[2])
    var keys = Int(words[3])
    var scale = Float32(Float64(words[4]))
    with DeviceContext() as ctx:
        var q_data = ctx.enqueue_create_buffer[DType.bfloat16](batch * heads * 576)
        var c_data = ctx.enqueue_create_buffer[DType.bfloat16](batch * keys * 576)
        var o_data = ctx.enqueue_create_buffer[DType.bfloat16](batch * heads * 512)
        read_into(q_data, folder + "/q.bin")
        read_into(c_data, folder + "/cache.bin")
        var numbers = MLADispatchScalarArgs[num_heads=heads, _is_cache_length_accurate=True](
            batch, keys, 1, ctx
        )
        var q = TileTensor(q_data, row_major(Coord(batch, 1, Idx[heads], Idx[576])))
        var k = TileTensor(c_data, row_major(Coord(batch, keys, Idx[1], Idx[576])))
        var o = TileTensor(o_data, row_major(Coord(batch, 1, Idx[heads], Idx[512])))
        flare_mla_decoding[config=MHAConfig[DType.bfloat16](heads, 576)](
            o.as_unsafe_any_origin(), q, k, CausalMask(), scale, ctx, numbers.gpu_tile_tensor(),
            num_partitions=1,
        )
        write_from(o_data, folder + "/o.bin")
        _ = q_data
        _ = c_data
        _ = numbers
