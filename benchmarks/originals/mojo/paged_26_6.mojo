# paged.mojo for 26.6, whose entry point takes tensors of another type than its cache does.
#
#   paged FOLDER BATCH QUERIES LONGEST CONTEXT PAGES COLUMNS SCALE
#
# Files and numbers are those of paged.mojo.
from std.sys import argv
from std.sys.defines import get_defined_int
from kv_cache.types import KVCacheStaticParams, PagedKVCacheCollection
from std.utils import IndexList
from layout import Coord, Idx, Layout, LayoutTensor, RuntimeLayout, TileTensor, row_major
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
comptime Flat = Layout.row_major(-1)
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
        var q = TileTensor(q_data, row_major(Coord(queries, Idx[heads], Idx[depth]))).as_immut()
        var o = TileTensor(o_data, row_major(Coord(queries, Idx[heads], Idx[depth])))
        var blocks = TileTensor(
            kv_data,
            row_major(
                Coord(
                    Int64(pages), Idx[2 if not params.is_mla else 1], Int64(1), Idx[page],
                    Idx[params.num_heads], Idx[params.head_size],
                )
            ),
        )
        var table = TileTensor(table_data, row_major(Coord(Int64(batch), Int64(columns)))).as_immut()
        var offsets = TileTensor(offsets_data, row_major(Coord(Int64(batch + 1)))).as_immut()
        var cached = TileTensor(cached_data, row_major(Coord(Int64(batch)))).as_immut()
        var sinks = LayoutTensor[DType.bfloat16, Flat, ImmutAnyOrigin](
            sinks_data.unsafe_ptr().unsafe_mut_cast[False]().unsafe_origin_cast[ImmutAnyOrigin](),
            RuntimeLayout[Flat].row_major(IndexList[1](heads)),
        )
        var cache = Cache(
            blocks.as_unsafe_any_origin(),
            cached.as_unsafe_any_origin(),
            table.as_unsafe_any_origin(),
            UInt32(longest),
            UInt32(context),
        )
        var k = cache.get_key_cache(0)
        var v = cache.get_value_cache(0)
        flash_attention[ragged=True, sink=sink != 0](
            o.to_layout_tensor(), q.to_layout_tensor(), k, v, CausalMask(),
            offsets.as_unsafe_any_origin().to_layout_tensor(), scale, ctx, sink_weights=sinks,
        )
        write_from(o_data, folder + "/o.bin")
        _ = q_data
        _ = kv_data
        _ = table_data
        _ = offsets_data
        _ = cached_data
        _ = sinks_data
