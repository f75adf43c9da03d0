# MLA prefill of one sequence through Modular's public entry point.
#
#   prefill FOLDER QUERIES KEYS SCALE
#
# q.bin (QUERIES, heads, 192), k.bin and v.bin (KEYS, heads, 128), cache.bin (KEYS, 576), whose last
# 64 columns are the rope part of the keys of all heads; o.bin (QUERIES, heads, 128). Causal.
from std.sys import argv
from std.sys.defines import get_defined_int
from layout import Coord, Idx, TileTensor, row_major
from max.gpu.host import DeviceContext
from nn.attention.gpu.mla import flare_mla_prefill
from nn.attention.mha_mask import CausalMask
from raw_files import read_into, write_from

comptime heads = get_defined_int["heads", 2]()


def main() raises:
    var words = argv()
    var folder = String(words[1])
    var queries = Int(words[2])
    var keys = Int(words[3])
    var scale = Float32(Float64(words[4]))
    with DeviceContext() as ctx:
        var q_data = ctx.enqueue_create_buffer[DType.bfloat16](queries * heads * 192)
        var k_data = ctx.enqueue_create_buffer[DType.bfloat16](keys * heads * 128)
        var v_data = ctx.enqueue_create_buffer[DType.bfloat16](keys * heads * 128)
        var c_data = ctx.enqueue_create_buffer[DType.bfloat16](keys * 576)
        var o_data = ctx.enqueue_create_buffer[DType.bfloat16](queries * heads * 128)
        var q_ends = ctx.enqueue_create_buffer[DType.uint32](2)
        var k_ends = ctx.enqueue_create_buffer[DType.uint32](2)
        read_into(q_data, folder + "/q.bin")
        read_into(k_data, folder + "/k.bin")
        read_into(v_data, folder + "/v.bin")
        read_into(c_data, folder + "/cache.bin")
        read_into(q_ends, folder + "/q_ends.bin")
        read_into(k_ends, folder + "/k_ends.bin")
        var q = TileTensor(q_data, row_major(Coord(queries, Idx[heads], Idx[192])))
        var k = TileTensor(k_data, row_major(Coord(keys, Idx[heads], Idx[128])))
        var v = TileTensor(v_data, row_major(Coord(keys, Idx[heads], Idx[128])))
        var cache = TileTensor(c_data, row_major(Coord(1, keys, Idx[1], Idx[576])))
        var o = TileTensor(o_data, row_major(Coord(queries, Idx[heads], Idx[128])))
        flare_mla_prefill[rank=q.rank](
            o, q, k, v, cache, CausalMask(),
            TileTensor(q_ends, row_major(Coord(2))), TileTensor(k_ends, row_major(Coord(2))),
            scale, ctx, q_max_seq_len=queries,
        )
        write_from(o_data, folder + "/o.bin")
        _ = q_data
        _ = k_data
        _ = v_data
        _ = c_data
        _ = q_ends
        _ = k_ends
