# Ragged queries and a paged key/value cache through Modular's public entry point.
#
#   paged FOLDER BATCH QUERIES LONGEST CONTEXT PAGES COLUMNS SCALE
#
# QUERIES: of all sequences; LONGEST: of one; CONTEXT: keys of the longest. q.bin (QUERIES, heads,
# depth); blocks.bin (PAGES, 2, 1, page, kv_heads, depth), keys before values; table.bin (BATCH,
# COLUMNS): pages of each sequence; offsets.bin: first query of each sequence, and QUERIES;
# cached.bin: keys of each sequence before its queries; sinks.bin: a bf16 number for each head.
# Causal; o.bin as q.bin. Of the program: -D depth, heads, kv_heads, page, sink.
from std.sys import argv
from std.sys.defines import get_defined_int
from kv_cache.types import KVCacheStaticParams, PagedKVCacheCollection
from layout import Coord, Idx, TileTensor, row_major
from max.gpu.host import DeviceContext
from nn.attention.gpu.mha import flash_attention
from nn.attention.mha_mask import CausalMask
from raw_files import read_into, write_from

comptime depth = get_defined_int["depth", 128]()
comptime heads = get_defined_int["heads", 2]()
comptime kv_heads = get_defined_int["kv_heads", 2]()
comptime page = get_defined_int["page", 128]()
comptime sink = get_defined_int["sink", 0]()
comptime params = KVCacheStaticParams(num_heads=kv_heads, head_size=depth)
comptime Cache = PagedKVCacheCollection[
    DType.bfloat16, params, page, MutAnyOrigin, ImmutAnyOrigin, ImmutAnyOrigin, MutAnyOrigin
]


def main() raises:
    var words = argv()
    var folder = String(words[1])
    var batch = Int(words[2])
    var queries = Int(words[3])
    var longest = Int(words[4])
    var context = Int(words[5])
    var pages = Int(words[6])
    var columns = Int(words[7])
    var scale = Float32(Float64(words[8]))
    with DeviceContext() as ctx:
        var q_data = ctx.enqueue_create_buffer[DType.bfloat16](queries * heads * depth)
        var o_data = ctx.enqueue_create_buffer[DType.bfloat16](queries * heads * depth)
        var kv_data = ctx.enqueue_create_buffer[DType.bfloat16](
            pages * 2 * page * kv_heads * depth
        )
        var table_data = ctx.enqueue_create_buffer[DType.uint32](batch * columns)
        var offsets_data = ctx.enqueue_create_buffer[DType.uint32](batch + 1)
        var cached_data = ctx.enqueue_create_buffer[DType.uint32](batch)
        var sinks_data = ctx.enqueue_create_buffer[DType.bfloat16](heads)
        read_into(q_data, folder + "/q.bin")
        read_into(kv_data, folder + "/blocks.bin")
        read_into(table_data, folder + "/table.bin")
        read_into(offsets_data, folder + "/offsets.bin")
        read_into(cached_data, folder + "/cached.bin")
        read_into(sinks_data, folder + "/sinks.bin")
        var q = TileTensor(q_data, row_major(Coord(queries, Idx[heads], Idx[depth]))).as_imm()
        var o = TileTensor(o_data, row_major(Coord(queries, Idx[heads], Idx[depth])))
        var blocks = TileTensor(
            kv_data,
            row_major(Coord(Int64(pages), Idx[2], Int64(1), Idx[page], Idx[kv_heads], Idx[depth])),
        )
        var table = TileTensor(table_data, row_major(Coord(Int64(batch), Int64(columns)))).as_imm()
        var offsets = TileTensor(offsets_data, row_major(Coord(Int64(batch + 1)))).as_imm()
        var cached = TileTensor(cached_data, row_major(Coord(Int64(batch)))).as_imm()
        var sinks = TileTensor(sinks_data, row_major(Coord(Int64(heads)))).as_imm()
        var cache = Cache(
            blocks.as_unsafe_any_origin(),
            cached.as_unsafe_any_origin(),
            table.as_unsafe_any_origin(),
            UInt32(longest),
            UInt32(context),
        )
        var k = cache.get_key_cache(0)
        var v = cache.get_value_cache(0)
        comptime if sink:
            flash_attention[ragged=True, sink=True](
                o, q, k, v, CausalMask(), offsets.as_unsafe_any_origin(), scale, ctx,
                sink_weights=sinks.as_unsafe_any_origin(),
            )
        else:
            flash_attention[ragged=True](
                o, q, k, v, CausalMask(), offsets.as_unsafe_any_origin(), scale, ctx
            )
        write_from(o_data, folder + "/o.bin")
        _ = q_data
        _ = kv_data
        _ = table_data
        _ = offsets_data
        _ = cached_data
        _ = sinks_data
