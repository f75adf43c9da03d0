/* The 128-byte tensor map and the walk over one box; the layout was decoded from a driver's encodings
 * (tests/data/tensormaps-h200.json). */
#ifndef SM100SIM_TENSORMAP_H
#define SM100SIM_TENSORMAP_H
#include "copy/bulk.h"
#include "memory/reduce.h"

#define MAX_RANK 5u
#define MAX_SPATIAL 3u
#define NAMED_ROWS 4u /* of gather4 and scatter4 */
#define SWIZZLE_ATOM32 4u
#define MAX_ROW_BYTES 2048u /* 256 elements of 8 bytes */

enum {
  MAP_U8,
  MAP_U16,
  MAP_U32,
  MAP_S32,
  MAP_U64,
  MAP_S64,
  MAP_F16,
  MAP_F32,
  MAP_F32_FTZ,
  MAP_F64,
  MAP_BF16,
  MAP_U4,
  MAP_U4_PADDED,
  MAP_U6_PADDED,
  MAP_TYPES
};

typedef struct {
  u64 base, dim[MAX_RANK], stride[MAX_RANK]; /* sizes in elements; strides in bytes, [0] the element size */
  u32 rank, type, bytes;                     /* element type and size */
  u32 swizzle;                               /* 0 none, 1 32B, 2 64B, 3 128B, 4 128B with 32-byte atoms */
  bool nan_fill, tf32;
  u32 packed;                                /* bits of elements below a byte, or 0; sizes here are bytes */
  bool padded;                               /* sixteen elements take 16 bytes of shared memory */
  u32 box[MAX_RANK], step[MAX_RANK];         /* box sizes and element strides */
  u32 count[MAX_RANK];                       /* elements of the box that are copied: ceil(box / step) */
  bool rows;                                 /* four rows, each named by a coordinate (gather4, scatter4) */
  u32 pixels;                                /* of a column of an im2col map, 0 in tile mode */
  i32 lower[MAX_SPATIAL], last[MAX_SPATIAL]; /* first and last filter base along W, H, D */
  u32 offset[MAX_SPATIAL];                   /* im2col offsets, of the instruction */
} TensorMap;

/* NULL, or why the 128 bytes are not a tensor map that is understood. */
const char *tensormap_decode(const u8 raw[128], TensorMap *t);
/* NULL, or why a box of this map cannot be copied. */
const char *tensormap_box_rule(const TensorMap *t);
u32 tensormap_box_bytes(const TensorMap *t);  /* bytes that are copied and counted */
u32 tensormap_row_pitch(const TensorMap *t);  /* from one row to the next in shared memory */
u32 tensormap_smem_bytes(const TensorMap *t); /* shared memory from the first row to the end of the last */
/* Operand of a tensor instruction: checked location, decoded.  `a`: len and align are set here. */
Step tensormap_operand(Ctx *c, Access a, u32 lane, TensorMap *t);
/* Element type for reductions, or -1 when the map's type has no such operation. */
int tensormap_element(const TensorMap *t, RedOp op);
Step op_tensormap_prefetch(Ctx *c, const Ins *i);
Step op_tensormap_replace(Ctx *c, const Ins *i);
Step op_tensormap_copy(Ctx *c, const Ins *i);
Step op_tensormap_acquire(Ctx *c, const Ins *i);

/* One row (dimension 0) of a box: global address of its first element and the elements that are copied.  A load
 * ends with the tensor's inner dimension; stores and reductions go on to the next multiple of 16 bytes, into the
 * padding of the row or, after the last row, after the tensor (H200 record). */
typedef struct {
  u64 addr;
  u32 lo, hi;
} Row;

typedef struct {
  const TensorMap *map;
  u64 inner;
  i32 c[MAX_RANK];
  u32 at[MAX_RANK];
  bool more;
} Walk;

void walk_start(Walk *w, const TensorMap *t, const i32 coord[MAX_RANK], bool write);
bool walk_row(Walk *w, Row *row);
/* Global bytes from the first to the last element that is copied; false when there are none. */
bool box_span(const TensorMap *t, const i32 coord[MAX_RANK], bool write, u64 *addr, u64 *len);

#define PADDED_ROW 128u /* bytes in shared memory, and elements, of a row of padded elements */

/* Widest row of a box, bytes; 16 without a swizzle. */
static inline u32 swizzle_line(u32 swizzle) {
  return swizzle == SWIZZLE_ATOM32 ? 128 : 16u << swizzle;
}

/* Copy one row of `bytes` bytes between a buffer and the shared window; `offset`: absolute window offset. */
u32 swizzle_place(u32 address, u32 swizzle); /* of a 16-byte chunk */
void swizzle_put(u8 *smem, u32 offset, const u8 *from, u32 bytes, u32 swizzle);
/* A row as it arrives: of elements with gaps sixteen in 16 bytes.  What is in the gaps no document says, here zeros. */
void box_row_put(u8 *smem, u32 offset, const u8 *from, const TensorMap *t);
void swizzle_get(const u8 *smem, u32 offset, u8 *to, u32 bytes, u32 swizzle);
#endif
