# Dense attention through Modular's public entry point: q.bin, k.bin, v.bin of a folder to o.bin.
#
#   dense FOLDER BATCH QUERIES KEYS SCALE
#
# Row-major (batch, length, heads, depth). Of the program: -D depth, heads, kv_heads, fp8;
# mask 0 is causal, 1 none, any other number a causal window of so many keys.
from std.sys import argv
from std.sys.defines import get_defined_int
from layout import Idx, TileTensor, row_major
from max.gpu.host import DeviceContext
from nn.attention.gpu.mha import flash_attention
from nn.attention.mha_mask import CausalMask, NullMask, SlidingWindowCausalMask
from raw_files import read_into, write_from

comptime depth = get_defined_int["depth", 128]()
comptime heads = get_defined_int["heads", 2]()
comptime kv_heads = get_defined_int["kv_heads", 2]()
comptime mask = get_defined_int["mask", 0]()
comptime fp8 = get_defined_int["fp8", 0]()
comptime given = DType.float8_e4m3fn if fp8 else DType.bfloat16


def main() raises:
    var words = argv()
    var folder = String(words[1])
    var batch = Int(words[2])
    var queries = Int(words[3])
    var keys = Int(words[4])
    var scale = Float32(Float64(words[5]))
    with DeviceContext() as ctx:
        var q_data = ctx.enqueue_create_buffer[given](batch * queries * heads * depth)
        var k_data = ctx.enqueue_create_buffer[given](batch * keys * kv_heads * depth)
        var v_data = ctx.enqueue_create_buffer[given](batch * keys * kv_heads * depth)
        var o_data = ctx.enqueue_create_buffer[DType.bfloat16](batch * queries * heads * depth)
        read_into(q_data, folder + "/q.bin")
        read_into(k_data, folder + "/k.bin")
        read_into(v_data, folder + "/v.bin")
        var q = TileTensor(q_data, row_major((batch, queries, Idx[heads], Idx[depth])))
        var k = TileTensor(k_data, row_major((batch, keys, Idx[kv_heads], Idx[depth])))
        var v = TileTensor(v_data, row_major((batch, keys, Idx[kv_heads], Idx[depth])))
        var o = TileTensor(o_data, row_major((batch, queries, Idx[heads], Idx[depth])))
        comptime if mask == 0:
            flash_attention(o, q, k, v, CausalMask(), scale, ctx)
        elif mask == 1:
            flash_attention(o, q, k, v, NullMask(), scale, ctx)
        else:
            flash_attention(o, q, k, v, SlidingWindowCausalMask[mask](), scale, ctx)
        write_from(o_data, folder + "/o.bin")
        _ = q_data
        _ = k_data
        _ = v_data
