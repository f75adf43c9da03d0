/* Written by `python -m sm100sim.contract.header`; do not edit. */
/* clang-format off */
#ifndef SM100SIM_CONTRACT_FORMS_H
#define SM100SIM_CONTRACT_FORMS_H
#include "machine/types.h"

/* mov, packing, symbols, clocks: bits of a part or the destination, word of a clock. */
typedef struct {
  u8 bits, word;
  bool negated;
} MoveForm;
_Static_assert(sizeof(MoveForm) == 3 && offsetof(MoveForm, bits) == 0 && offsetof(MoveForm, word) == 1 &&
    offsetof(MoveForm, negated) == 2, "MoveForm");

/* Integer arithmetic and bits.  `table`: of lop3, or VIDEO; `mode`: of prmt, or VideoFlag. */
typedef struct {
  bool a_signed, b_signed, shift_amount, right, wrap;
  u8 table, mode;
} IntegerForm;
_Static_assert(sizeof(IntegerForm) == 7 && offsetof(IntegerForm, a_signed) == 0 &&
    offsetof(IntegerForm, b_signed) == 1 && offsetof(IntegerForm, shift_amount) == 2 &&
    offsetof(IntegerForm, right) == 3 && offsetof(IntegerForm, wrap) == 4 && offsetof(IntegerForm, table) == 5 &&
    offsetof(IntegerForm, mode) == 6, "IntegerForm");

/* f32 and f64.  `full`: div.full; `maximum` and `flags` (Numeric): of min and max. */
typedef struct {
  u8 rounding;
  bool ftz, sat, full, maximum;
  u8 flags;
} FloatingForm;
_Static_assert(sizeof(FloatingForm) == 6 && offsetof(FloatingForm, rounding) == 0 && offsetof(FloatingForm, ftz) == 1 &&
    offsetof(FloatingForm, sat) == 2 && offsetof(FloatingForm, full) == 3 && offsetof(FloatingForm, maximum) == 4 &&
    offsetof(FloatingForm, flags) == 5, "FloatingForm");

/* 16-bit floats: FORMATS, HALF_OPERATIONS, Numeric, values in a register. */
typedef struct {
  u8 format, op, flags, halves;
} HalfForm;
_Static_assert(sizeof(HalfForm) == 4 && offsetof(HalfForm, format) == 0 && offsetof(HalfForm, op) == 1 &&
    offsetof(HalfForm, flags) == 2 && offsetof(HalfForm, halves) == 3, "HalfForm");

/* cvt between scalars: CVT_TYPES, ROUNDINGS, Numeric, bits of the registers. */
typedef struct {
  u8 to, source, rounding, flags, bits, source_bits;
} ConvertForm;
_Static_assert(sizeof(ConvertForm) == 6 && offsetof(ConvertForm, to) == 0 && offsetof(ConvertForm, source) == 1 &&
    offsetof(ConvertForm, rounding) == 2 && offsetof(ConvertForm, flags) == 3 && offsetof(ConvertForm, bits) == 4 &&
    offsetof(ConvertForm, source_bits) == 5, "ConvertForm");

/* cvt of packed formats: FORMATS, bits of an element; `sign_bit`: cvt.pack gives it one. */
typedef struct {
  u8 to, bits, source, source_bits, rounding, sign_bit;
  bool relu, satfinite;
} PackForm;
_Static_assert(sizeof(PackForm) == 8 && offsetof(PackForm, to) == 0 && offsetof(PackForm, bits) == 1 &&
    offsetof(PackForm, source) == 2 && offsetof(PackForm, source_bits) == 3 && offsetof(PackForm, rounding) == 4 &&
    offsetof(PackForm, sign_bit) == 5 && offsetof(PackForm, relu) == 6 && offsetof(PackForm, satfinite) == 7,
    "PackForm");

/* setp, set, selp, slct, testp, predicate logic.
 *
 * `negated_a`, `negated_b`: of predicate sources (setp and selp: of the only one); `number`: of
 * COMPARISONS, or of CLASSES; `type`: of COMPARED; `as_float`: the selector of slct is a float. */
typedef struct {
  u8 number, type, combine;
  bool ftz, negated_a, negated_b, packed, as_float;
} CompareForm;
_Static_assert(sizeof(CompareForm) == 8 && offsetof(CompareForm, number) == 0 && offsetof(CompareForm, type) == 1 &&
    offsetof(CompareForm, combine) == 2 && offsetof(CompareForm, ftz) == 3 && offsetof(CompareForm, negated_a) == 4 &&
    offsetof(CompareForm, negated_b) == 5 && offsetof(CompareForm, packed) == 6 && offsetof(CompareForm, as_float) == 7,
    "CompareForm");

/* Across a warp: `mode` of SHUFFLES, VOTES, REDUCTIONS, or all lanes of match. */
typedef struct {
  u8 mode;
  bool negated, all, wide, absolute, nan;
} CollectiveForm;
_Static_assert(sizeof(CollectiveForm) == 6 && offsetof(CollectiveForm, mode) == 0 &&
    offsetof(CollectiveForm, negated) == 1 && offsetof(CollectiveForm, all) == 2 &&
    offsetof(CollectiveForm, wide) == 3 && offsetof(CollectiveForm, absolute) == 4 &&
    offsetof(CollectiveForm, nan) == 5, "CollectiveForm");

/* call: where the callee's frame begins, from the caller's; brx: entries of its table. */
typedef struct {
  u32 room;
  bool indirect;
  u32 entries;
} CallForm;
_Static_assert(sizeof(CallForm) == 12 && offsetof(CallForm, room) == 0 && offsetof(CallForm, indirect) == 4 &&
    offsetof(CallForm, entries) == 8, "CallForm");

/* ld and st: Space, bytes of an element, bits of its registers and of the address, Order. */
typedef struct {
  u8 space, bytes, register_bits;
  bool is_signed;
  u8 address_bits, order;
} MemoryForm;
_Static_assert(sizeof(MemoryForm) == 6 && offsetof(MemoryForm, space) == 0 && offsetof(MemoryForm, bytes) == 1 &&
    offsetof(MemoryForm, register_bits) == 2 && offsetof(MemoryForm, is_signed) == 3 &&
    offsetof(MemoryForm, address_bits) == 4 && offsetof(MemoryForm, order) == 5, "MemoryForm");

/* Arguments and results between frames: offsets from the lane's frame, bytes. */
typedef struct {
  u32 to, source, bytes;
} FrameCopyForm;
_Static_assert(sizeof(FrameCopyForm) == 12 && offsetof(FrameCopyForm, to) == 0 &&
    offsetof(FrameCopyForm, source) == 4 && offsetof(FrameCopyForm, bytes) == 8, "FrameCopyForm");

/* st.async and red.async. */
typedef struct {
  u8 op, element, bytes, address_bits, bar_bits;
  i32 bar_offset;
} RemoteForm;
_Static_assert(sizeof(RemoteForm) == 12 && offsetof(RemoteForm, op) == 0 && offsetof(RemoteForm, element) == 1 &&
    offsetof(RemoteForm, bytes) == 2 && offsetof(RemoteForm, address_bits) == 3 &&
    offsetof(RemoteForm, bar_bits) == 4 && offsetof(RemoteForm, bar_offset) == 8, "RemoteForm");

/* cvta, isspacep, mapa, getctarank.  `window`: high half of a generic address, 0 for global. */
typedef struct {
  u32 window;
  bool own, wide;
} WindowForm;
_Static_assert(sizeof(WindowForm) == 8 && offsetof(WindowForm, window) == 0 && offsetof(WindowForm, own) == 4 &&
    offsetof(WindowForm, wide) == 5, "WindowForm");

/* atom and red: `packed` elements in one register, `elements` registers. */
typedef struct {
  u8 space, op, element, packed, address_bits, order, register_bits, elements;
} AtomicForm;
_Static_assert(sizeof(AtomicForm) == 8 && offsetof(AtomicForm, space) == 0 && offsetof(AtomicForm, op) == 1 &&
    offsetof(AtomicForm, element) == 2 && offsetof(AtomicForm, packed) == 3 &&
    offsetof(AtomicForm, address_bits) == 4 && offsetof(AtomicForm, order) == 5 &&
    offsetof(AtomicForm, register_bits) == 6 && offsetof(AtomicForm, elements) == 7, "AtomicForm");

/* ldmatrix and stmatrix: MATRIX_SHAPES, address lanes, bits of packed elements or 0. */
typedef struct {
  u8 space, shape, address_bits, rows, packed;
} MatrixForm;
_Static_assert(sizeof(MatrixForm) == 5 && offsetof(MatrixForm, space) == 0 && offsetof(MatrixForm, shape) == 1 &&
    offsetof(MatrixForm, address_bits) == 2 && offsetof(MatrixForm, rows) == 3 && offsetof(MatrixForm, packed) == 4,
    "MatrixForm");

/* tensormap.replace, cp_fenceproxy, prefetch and acquire of a tensor map. */
typedef struct {
  u8 space, address_bits, field, ordinal, value_bits, source_bits;
  i32 source_offset;
} MapAccessForm;
_Static_assert(sizeof(MapAccessForm) == 12 && offsetof(MapAccessForm, space) == 0 &&
    offsetof(MapAccessForm, address_bits) == 1 && offsetof(MapAccessForm, field) == 2 &&
    offsetof(MapAccessForm, ordinal) == 3 && offsetof(MapAccessForm, value_bits) == 4 &&
    offsetof(MapAccessForm, source_bits) == 5 && offsetof(MapAccessForm, source_offset) == 8, "MapAccessForm");

/* tex: dimensions, TexelType of the result, integer coordinates. */
typedef struct {
  u8 rank;
  bool layered, cube;
  u8 type;
  bool integer;
} TextureForm;
_Static_assert(sizeof(TextureForm) == 5 && offsetof(TextureForm, rank) == 0 && offsetof(TextureForm, layered) == 1 &&
    offsetof(TextureForm, cube) == 2 && offsetof(TextureForm, type) == 3 && offsetof(TextureForm, integer) == 4,
    "TextureForm");

/* suld and sust: dimensions, bytes of an element and bits of its registers, SURFACE_MODES. */
typedef struct {
  u8 rank;
  bool layered;
  u8 bytes, register_bits, mode;
} SurfaceForm;
_Static_assert(sizeof(SurfaceForm) == 5 && offsetof(SurfaceForm, rank) == 0 && offsetof(SurfaceForm, layered) == 1 &&
    offsetof(SurfaceForm, bytes) == 2 && offsetof(SurfaceForm, register_bits) == 3 && offsetof(SurfaceForm, mode) == 4,
    "SurfaceForm");

/* cp.async: cp-size, CpSource. */
typedef struct {
  u8 size, third, address_bits, source_bits;
  i32 source_offset;
} CopyForm;
_Static_assert(sizeof(CopyForm) == 8 && offsetof(CopyForm, size) == 0 && offsetof(CopyForm, third) == 1 &&
    offsetof(CopyForm, address_bits) == 2 && offsetof(CopyForm, source_bits) == 3 &&
    offsetof(CopyForm, source_offset) == 4, "CopyForm");

/* Waits for groups of copies.  `read`: until the sources are read; `all`: wait_all. */
typedef struct {
  bool read, all;
} WaitGroupForm;
_Static_assert(sizeof(WaitGroupForm) == 2 && offsetof(WaitGroupForm, read) == 0 && offsetof(WaitGroupForm, all) == 1,
    "WaitGroupForm");

/* Bulk copies: CopyFlag, RedOp and Element of a reduction. */
typedef struct {
  u8 flags, space, op, element, address_bits, source_bits, bar_bits;
  i32 source_offset, bar_offset;
} BulkForm;
_Static_assert(sizeof(BulkForm) == 16 && offsetof(BulkForm, flags) == 0 && offsetof(BulkForm, space) == 1 &&
    offsetof(BulkForm, op) == 2 && offsetof(BulkForm, element) == 3 && offsetof(BulkForm, address_bits) == 4 &&
    offsetof(BulkForm, source_bits) == 5 && offsetof(BulkForm, bar_bits) == 6 &&
    offsetof(BulkForm, source_offset) == 8 && offsetof(BulkForm, bar_offset) == 12, "BulkForm");

/* Tensor copies: CopyFlag, rank, spaces of the shared-memory address and of the tensor map. */
typedef struct {
  u8 flags, rank, space, map_space, address_bits, map_bits, bar_bits, op;
  i32 map_offset, bar_offset;
} TensorForm;
_Static_assert(sizeof(TensorForm) == 16 && offsetof(TensorForm, flags) == 0 && offsetof(TensorForm, rank) == 1 &&
    offsetof(TensorForm, space) == 2 && offsetof(TensorForm, map_space) == 3 &&
    offsetof(TensorForm, address_bits) == 4 && offsetof(TensorForm, map_bits) == 5 &&
    offsetof(TensorForm, bar_bits) == 6 && offsetof(TensorForm, op) == 7 && offsetof(TensorForm, map_offset) == 8 &&
    offsetof(TensorForm, bar_offset) == 12, "TensorForm");

/* mbarrier.* and cp.async.mbarrier.arrive: ArriveFlag, WaitFlag or Transaction. */
typedef struct {
  u8 space, address_bits, flags;
} MbarrierForm;
_Static_assert(sizeof(MbarrierForm) == 3 && offsetof(MbarrierForm, space) == 0 &&
    offsetof(MbarrierForm, address_bits) == 1 && offsetof(MbarrierForm, flags) == 2, "MbarrierForm");

/* bar, barrier.  `counted`: a thread count is given; `negated`: the predicate of .red;
 * `aligned`: all threads of a warp execute it together. */
typedef struct {
  u8 kind;
  bool counted, negated, aligned;
} BarrierForm;
_Static_assert(sizeof(BarrierForm) == 4 && offsetof(BarrierForm, kind) == 0 && offsetof(BarrierForm, counted) == 1 &&
    offsetof(BarrierForm, negated) == 2 && offsetof(BarrierForm, aligned) == 3, "BarrierForm");

/* barrier.cluster.arrive and wait. */
typedef struct {
  bool relaxed, aligned;
} ClusterBarrierForm;
_Static_assert(sizeof(ClusterBarrierForm) == 2 && offsetof(ClusterBarrierForm, relaxed) == 0 &&
    offsetof(ClusterBarrierForm, aligned) == 1, "ClusterBarrierForm");

/* setmaxnreg. */
typedef struct {
  bool grow;
} RegisterBudgetForm;
_Static_assert(sizeof(RegisterBudgetForm) == 1 && offsetof(RegisterBudgetForm, grow) == 0, "RegisterBudgetForm");

/* fence, membar: FenceKind and its Order, or FenceSpace. */
typedef struct {
  u8 kind, argument;
} FenceForm;
_Static_assert(sizeof(FenceForm) == 2 && offsetof(FenceForm, kind) == 0 && offsetof(FenceForm, argument) == 1,
    "FenceForm");

/* clusterlaunchcontrol.  `axes`: coordinate that each destination of get_first_ctaid gets. */
typedef struct {
  u8 space, address_bits, bar_bits;
  bool everywhere;
  u8 axes[4];
  i32 bar_offset;
} CancelForm;
_Static_assert(sizeof(CancelForm) == 12 && offsetof(CancelForm, space) == 0 &&
    offsetof(CancelForm, address_bits) == 1 && offsetof(CancelForm, bar_bits) == 2 &&
    offsetof(CancelForm, everywhere) == 3 && offsetof(CancelForm, axes) == 4 && offsetof(CancelForm, bar_offset) == 8,
    "CancelForm");

/* tcgen05.alloc, dealloc, relinquish_alloc_permit, commit, cp (CP_SHAPES, element's bits). */
typedef struct {
  u8 group, address_bits;
  bool generic, multicast;
  u8 shape, packed;
} TmemForm;
_Static_assert(sizeof(TmemForm) == 6 && offsetof(TmemForm, group) == 0 && offsetof(TmemForm, address_bits) == 1 &&
    offsetof(TmemForm, generic) == 2 && offsetof(TmemForm, multicast) == 3 && offsetof(TmemForm, shape) == 4 &&
    offsetof(TmemForm, packed) == 5, "TmemForm");

/* tcgen05.ld, st (LD_SHAPES, column offset of the upper half), wait, fence. */
typedef struct {
  u8 shape;
  bool packed;
  u16 half;
  bool stores, after;
} TmemAccessForm;
_Static_assert(sizeof(TmemAccessForm) == 6 && offsetof(TmemAccessForm, shape) == 0 &&
    offsetof(TmemAccessForm, packed) == 1 && offsetof(TmemAccessForm, half) == 2 &&
    offsetof(TmemAccessForm, stores) == 4 && offsetof(TmemAccessForm, after) == 5, "TmemAccessForm");

/* tcgen05.mma: MMA_KINDS, MmaFlag, elements of K per scale factor, address offsets. */
typedef struct {
  u8 kind, flags, scale_d, block;
  i32 a_offset;
  i16 sfa_offset, sfb_offset, meta_offset;
} MmaForm;
_Static_assert(sizeof(MmaForm) == 16 && offsetof(MmaForm, kind) == 0 && offsetof(MmaForm, flags) == 1 &&
    offsetof(MmaForm, scale_d) == 2 && offsetof(MmaForm, block) == 3 && offsetof(MmaForm, a_offset) == 4 &&
    offsetof(MmaForm, sfa_offset) == 8 && offsetof(MmaForm, sfb_offset) == 10 && offsetof(MmaForm, meta_offset) == 12,
    "MmaForm");

/* wgmma.mma_async: WGMMA_ELEMENTS, WGMMA_RESULTS, WgmmaFlag, N; `first`: as in MmaSync. */
typedef struct {
  u8 a, b, d, flags;
  u16 n;
  u8 first;
} WgmmaForm;
_Static_assert(sizeof(WgmmaForm) == 8 && offsetof(WgmmaForm, a) == 0 && offsetof(WgmmaForm, b) == 1 &&
    offsetof(WgmmaForm, d) == 2 && offsetof(WgmmaForm, flags) == 3 && offsetof(WgmmaForm, n) == 4 &&
    offsetof(WgmmaForm, first) == 6, "WgmmaForm");

/* mma.sync: SYNC_ELEMENTS, WGMMA_RESULTS, M, K, SyncFlag; `first` lane of 4 with metadata. */
typedef struct {
  u8 a, b, d, m;
  u16 k;
  u8 flags, first;
} MmaSyncForm;
_Static_assert(sizeof(MmaSyncForm) == 8 && offsetof(MmaSyncForm, a) == 0 && offsetof(MmaSyncForm, b) == 1 &&
    offsetof(MmaSyncForm, d) == 2 && offsetof(MmaSyncForm, m) == 3 && offsetof(MmaSyncForm, k) == 4 &&
    offsetof(MmaSyncForm, flags) == 6 && offsetof(MmaSyncForm, first) == 7, "MmaSyncForm");

/* The modifiers of an instruction, as the form of its family. */
typedef union {
  u8 bytes[16];
  MoveForm move;
  IntegerForm integer;
  FloatingForm floating;
  HalfForm half;
  ConvertForm convert;
  PackForm pack;
  CompareForm compare;
  CollectiveForm collective;
  CallForm call;
  MemoryForm memory;
  FrameCopyForm frame_copy;
  RemoteForm remote;
  WindowForm window;
  AtomicForm atomic;
  MatrixForm matrix;
  MapAccessForm map_access;
  TextureForm texture;
  SurfaceForm surface;
  CopyForm copy;
  WaitGroupForm wait_group;
  BulkForm bulk;
  TensorForm tensor;
  MbarrierForm mbarrier;
  BarrierForm barrier;
  ClusterBarrierForm cluster_barrier;
  RegisterBudgetForm register_budget;
  FenceForm fence;
  CancelForm cancel;
  TmemForm tmem;
  TmemAccessForm tmem_access;
  MmaForm mma;
  WgmmaForm wgmma;
  MmaSyncForm mma_sync;
} Form;
_Static_assert(sizeof(Form) == 16, "Form");

#endif
