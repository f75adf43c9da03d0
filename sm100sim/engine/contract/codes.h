/* Written by `python -m sm100sim.contract.header`; do not edit. */
/* clang-format off */
#ifndef SM100SIM_CONTRACT_CODES_H
#define SM100SIM_CONTRACT_CODES_H
#include "machine/types.h"

#define NONE32 0xffffffffu
#define LANES 32u
#define MAX_CLUSTER 16u
#define MAX_WARPS 32u
#define SM_COUNT 148u
#define REGISTER_FILE 65536u
#define REGISTER_UNIT 8u
#define WARPGROUP_WARPS 4u
#define SMEM_RESERVED 1024u
#define SMEM_LENT 288u
#define SMEM_UNIT 128u
#define SMEM_MAX 233472u
#define SLOT_GRAIN 8u
#define WINDOW_RANK_SHIFT 24u
#define WINDOW_SHARED 0x1000000u
#define WINDOW_PARAM 0x2000000u
#define WINDOW_LOCAL 0x3000000u
#define WINDOW_CODE 0x4000000u
#define CODE_GRAIN 16u
#define CODE_BYTES (48)
#define TEXT_BYTES (464)
#define LOADED (-1)
#define OUT_OF_MEMORY (-2)
#define HEAP_BLOCKS (65536)

/* Which pipe an instruction occupies. */
typedef enum { UNIT_ALU = 0, UNIT_MUFU = 1, UNIT_LSU = 2, UNIT_SYNC = 3, UNIT_TMEM = 4, UNIT_MMA = 5, UNIT_TMA = 6 }
    Unit;

/* What a machine that records does with a cluster. */
typedef enum { CLUSTER_LEFT_OUT = 0, CLUSTER_RUN = 1, CLUSTER_RECORDED = 2 } ClusterPlan;

/* A finding is reported and the run goes on; a fault stops it. */
typedef enum { SEVERITY_FINDING = 0, SEVERITY_FAULT = 1 } Severity;

/* Kinds of timeline events. */
typedef enum { EV_BUSY = 0, EV_WAIT = 1, EV_MMA = 2, EV_TMA_LOAD = 3, EV_TMA_STORE = 4, EV_ARRIVE = 5, EV_MARK = 6,
    EV_ACCESS = 7, EV_FINDING = 8, EV_BARRIER = 9 } EventKind;

/* Optional watchers.
 *
 * `STRICT_LD` reports every use of a register that tcgen05.ld writes before tcgen05.wait::ld. The
 * ISA requires the wait; shipped kernels rely on the register dependency. `STRICT_EXIT`, with
 * `PROTOCOL`, reports mbarriers that are left in the middle of a phase, as they are after the last
 * `producer_acquire` of CuTe DSL pipelines. `STRICT_FENCE`, with `RACES`, lets signals
 * between threads order Tensor Memory only with the tcgen05.fence pair that the ISA requires,
 * which shipped kernels leave out. `STRICT_LANES`, with `RACES`, treats the lanes of a warp as
 * separate threads: what one lane signals or waits for does not order the others before
 * bar.warp.sync or another barrier. `STRICT_SCOPE`, with `RACES`, takes the scope of mbarrier
 * operations literally: one of CTA scope orders no memory between CTAs. `ALL` leaves these out;
 * `TO_THE_LETTER` is all of them except `STRICT_EXIT`. */
enum { CHECK_NONE = 0, CHECK_REGISTERS = 1, CHECK_SHARED = 2, CHECK_TMEM = 4, CHECK_RACES = 8, CHECK_PROTOCOL = 16,
    CHECK_STRICT_LD = 32, CHECK_STRICT_EXIT = 64, CHECK_STRICT_FENCE = 128, CHECK_STRICT_LANES = 512,
    CHECK_STRICT_SCOPE = 1024, CHECK_TO_THE_LETTER = 1696, CHECK_UNINITIALISED = 7, CHECK_ALL = 31 };

/* State space of an address. */
typedef enum { SPACE_GENERIC = 0, SPACE_SHARED_CTA = 1, SPACE_SHARED_CLUSTER = 2, SPACE_GLOBAL = 3, SPACE_PARAM = 4,
    SPACE_LOCAL = 5 } Space;

/* Scope of an access or a fence. */
typedef enum { SCOPE_WEAK = 0, SCOPE_CTA = 1, SCOPE_CLUSTER = 2, SCOPE_DEVICE = 3 } Scope;

/* Strength of an access or a fence: its scope in the low bits, and what it does. */
enum { ORDER_SCOPE = 3, ORDER_ACQUIRE = 4, ORDER_RELEASE = 8, ORDER_READ = 16, ORDER_UPDATE = 32 };

/* What a fence orders. */
typedef enum { FENCE_PROXY_ASYNC = 0, FENCE_MBARRIER_INIT = 1, FENCE_WAIT_LD = 2, FENCE_WAIT_ST = 3, FENCE_BEFORE = 4,
    FENCE_AFTER = 5, FENCE_MEMBAR = 6 } FenceKind;

/* Spaces of a proxy fence. */
enum { FENCE_SPACE_SHARED = 1, FENCE_SPACE_GLOBAL = 2 };

/* Operation of an atomic or a reduction. */
typedef enum { RED_ADD = 0, RED_MIN = 1, RED_MAX = 2, RED_AND = 3, RED_OR = 4, RED_XOR = 5, RED_INC = 6, RED_DEC = 7,
    RED_EXCH = 8, RED_CAS = 9 } RedOp;

/* Element of an atomic or a reduction; F64_SHARED: a sum in shared memory, with other NaNs. */
typedef enum { EL_U8 = 0, EL_U16 = 1, EL_U32 = 2, EL_S32 = 3, EL_U64 = 4, EL_S64 = 5, EL_F16 = 6, EL_BF16 = 7,
    EL_F32 = 8, EL_F32_FTZ = 9, EL_F64 = 10, EL_F64_SHARED = 11 } Element;

/* Type of the channels of a texture, and of what a fetch gives. */
typedef enum { TEXEL_UNSIGNED = 0, TEXEL_SIGNED = 1, TEXEL_FLOAT = 2 } TexelType;

/* How a coordinate outside of a texture is read (`CUaddress_mode`). */
typedef enum { OUTSIDE_WRAP = 0, OUTSIDE_CLAMP = 1, OUTSIDE_MIRROR = 2, OUTSIDE_BORDER = 3 } Outside;

/* Forms of bulk and tensor copies.  PAIR: .cta_group::2; ROWS: gather4 and scatter4. */
enum { COPY_FROM_GLOBAL = 1, COPY_MULTICAST = 2, COPY_REDUCE = 4, COPY_BYTE_MASK = 8, COPY_PAIR = 16, COPY_ROWS = 32,
    COPY_IM2COL = 64 };

/* Third operand of cp.async: none, bytes to read, or a predicate that ignores the source. */
typedef enum { CP_SOURCE_WHOLE = 0, CP_SOURCE_SIZE = 1, CP_SOURCE_IGNORE = 2 } CpSource;

/* Forms of bar and barrier. */
typedef enum { BAR_SYNC = 0, BAR_ARRIVE = 1, BAR_RED_POPC = 2, BAR_RED_AND = 3, BAR_RED_OR = 4 } BarrierKind;

/* Forms of mbarrier.arrive.  WIDE: cluster scope; NOINC: of cp.async.mbarrier.arrive. */
enum { ARRIVE_DROP = 1, ARRIVE_NO_COMPLETE = 2, ARRIVE_EXPECT = 4, ARRIVE_STATE = 8, ARRIVE_RELAXED = 16,
    ARRIVE_WIDE = 32, ARRIVE_NOINC = 64 };

/* Forms of mbarrier.test_wait and try_wait. */
enum { WAIT_TRY = 1, WAIT_PARITY = 2, WAIT_RELAXED = 4, WAIT_WIDE = 8 };

/* mbarrier.expect_tx or complete_tx. */
typedef enum { TX_EXPECT = 0, TX_COMPLETE = 1 } Transaction;

/* Optional parts of tcgen05.mma.  MASKED: with disable-output-lane; PAIR: cta_group::2; ZEROS:
 * .ws with a zero-column mask; SPARSE: .sp, whose metadata has the place of the factors of A. */
enum { MMA_A_TMEM = 1, MMA_NOT_ENABLE = 2, MMA_MASKED = 4, MMA_PAIR = 8, MMA_STATIONARY = 16, MMA_ZEROS = 32,
    MMA_SPARSE = 64 };

/* Optional parts of wgmma.mma_async. */
enum { WGMMA_A_REGISTERS = 1, WGMMA_NOT_SCALE_D = 2, WGMMA_NEGATE_A = 4, WGMMA_NEGATE_B = 8, WGMMA_TRANSPOSE_A = 16,
    WGMMA_TRANSPOSE_B = 32, WGMMA_SATURATE = 64, WGMMA_SPARSE = 128 };

/* Optional parts of mma.sync.  ORDERED: metadata; EXCLUSIVE: .xor of single bits, not .and. */
enum { SYNC_FLAG_SATURATE = 1, SYNC_FLAG_SPARSE = 2, SYNC_FLAG_ORDERED = 4, SYNC_FLAG_EXCLUSIVE = 8 };

/* Modifiers of arithmetic and conversions.  INTEGRAL: rounds to an integer. */
enum { FLAG_FTZ = 1, FLAG_SAT = 2, FLAG_RELU = 4, FLAG_NAN = 8, FLAG_XORSIGN = 16, FLAG_ABS = 32, FLAG_INTEGRAL = 64,
    FLAG_SATFINITE = 128 };

/* Forms of these.  SUM: .add, the results are added to c; SIGNED: what .sat clamps to. */
enum { VIDEO_FLAG_SUM = 1, VIDEO_FLAG_SAT = 2, VIDEO_FLAG_SIGNED = 4 };

typedef enum { MODE_FAST, MODE_RANDOM, MODE_LATE, MODE_TIMED, MODE_COUNT } Mode;

typedef enum { REGION_READ_ONLY, REGION_WRITABLE, REGION_HEAP, REGION_COUNT } RegionKind;

typedef enum { SP_TID_X, SP_TID_Y, SP_TID_Z, SP_NTID_X, SP_NTID_Y, SP_NTID_Z, SP_CTAID_X, SP_CTAID_Y, SP_CTAID_Z,
    SP_NCTAID_X, SP_NCTAID_Y, SP_NCTAID_Z, SP_LANEID, SP_WARPID, SP_NWARPID, SP_SMID, SP_NSMID, SP_CLUSTERID_X,
    SP_CLUSTERID_Y, SP_CLUSTERID_Z, SP_NCLUSTERID_X, SP_NCLUSTERID_Y, SP_NCLUSTERID_Z, SP_CLUSTER_CTAID_X,
    SP_CLUSTER_CTAID_Y, SP_CLUSTER_CTAID_Z, SP_CLUSTER_NCTAID_X, SP_CLUSTER_NCTAID_Y, SP_CLUSTER_NCTAID_Z,
    SP_CLUSTER_CTARANK, SP_CLUSTER_NCTARANK, SP_IS_EXPLICIT_CLUSTER, SP_LANEMASK_EQ, SP_LANEMASK_LE, SP_LANEMASK_LT,
    SP_LANEMASK_GE, SP_LANEMASK_GT, SP_GRIDID, SP_DYNAMIC_SMEM_SIZE, SP_TOTAL_SMEM_SIZE, SP_AGGR_SMEM_SIZE,
    SP_CURRENT_GRAPH_EXEC, SP_RESERVED_SMEM_OFFSET_BEGIN, SP_RESERVED_SMEM_OFFSET_END, SP_RESERVED_SMEM_OFFSET_0,
    SP_RESERVED_SMEM_OFFSET_1, SP_RESERVED_SMEM_OFFSET_CAP, SP_SMEM_BASE, SP_FRAME, SP_CONSTANT, SP_COUNT } SpecialKind;

typedef enum { SURFACE_TRAP, SURFACE_CLAMP, SURFACE_ZERO, SURFACE_COUNT } SurfaceMode;

typedef enum { FACT_WIDTH, FACT_HEIGHT, FACT_DEPTH, FACT_ARRAY_SIZE, FACT_NORMALIZED_COORDS, FACT_COUNT } TextureFact;

typedef enum { SHAPE_B16, SHAPE_B16_TRANS, SHAPE_B8_16X16, SHAPE_B8_16X8, SHAPE_COUNT } MatrixShape;

typedef enum { FIELD_GLOBAL_ADDRESS, FIELD_RANK, FIELD_BOX_DIM, FIELD_GLOBAL_DIM, FIELD_GLOBAL_STRIDE,
    FIELD_ELEMENT_STRIDE, FIELD_ELEMTYPE, FIELD_INTERLEAVE_LAYOUT, FIELD_SWIZZLE_MODE, FIELD_FILL_MODE, FIELD_COUNT }
    MapField;

typedef enum { KIND_F16, KIND_TF32, KIND_F8F6F4, KIND_I8, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4, KIND_COUNT } MmaKind;

typedef enum { LD_32X32B, LD_16X64B, LD_16X128B, LD_16X256B, LD_16X32BX2, LD_COUNT } LdShape;

typedef enum { WG_ELEMENT_F16, WG_ELEMENT_BF16, WG_ELEMENT_TF32, WG_ELEMENT_E4M3, WG_ELEMENT_E5M2, WG_ELEMENT_U8,
    WG_ELEMENT_S8, WG_ELEMENT_COUNT } WgmmaElement;

typedef enum { SYNC_F16, SYNC_BF16, SYNC_TF32, SYNC_E4M3, SYNC_E5M2, SYNC_U8, SYNC_S8, SYNC_U4, SYNC_S4, SYNC_F64,
    SYNC_B1, SYNC_COUNT } SyncElement;

typedef enum { WG_RESULT_F16, WG_RESULT_F32, WG_RESULT_S32, WG_RESULT_COUNT } WgmmaResult;

typedef enum { CP_128X256B, CP_128X128B, CP_4X256B, CP_64X128B_WARPX2_02_13, CP_64X128B_WARPX2_01_23, CP_32X128B_WARPX4,
    CP_COUNT } CpShape;

typedef enum { ROUND_RN, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNA, ROUND_COUNT } Rounding;

typedef enum { FMT_F16, FMT_BF16, FMT_TF32, FMT_E4M3, FMT_E5M2, FMT_E2M3, FMT_E3M2, FMT_E2M1, FMT_UE8M0, FMT_F32,
    FMT_COUNT } Format;

typedef enum { TYPE_U8, TYPE_S8, TYPE_U16, TYPE_S16, TYPE_U32, TYPE_S32, TYPE_U64, TYPE_S64, TYPE_F16, TYPE_BF16,
    TYPE_F32, TYPE_F64, TYPE_COUNT } CvtType;

typedef enum { HALF_ADD, HALF_SUB, HALF_MUL, HALF_FMA, HALF_MIN, HALF_MAX, HALF_NEG, HALF_ABS, HALF_EX2, HALF_TANH,
    HALF_COUNT } HalfOp;

typedef enum { PRMT_INDEX, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16, PRMT_COUNT } PrmtMode;

typedef enum { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_EQU, CMP_NEU, CMP_LTU, CMP_LEU, CMP_GTU, CMP_GEU,
    CMP_NUM, CMP_NAN, CMP_COUNT } Comparison;

typedef enum { COMPARED_U32, COMPARED_S32, COMPARED_U64, COMPARED_S64, COMPARED_S16, COMPARED_F32, COMPARED_F64,
    COMPARED_F16, COMPARED_BF16, COMPARED_COUNT } Compared;

typedef enum { VIDEO_ADD, VIDEO_SUB, VIDEO_AVRG, VIDEO_ABSDIFF, VIDEO_MIN, VIDEO_MAX, VIDEO_EQ, VIDEO_NE, VIDEO_LT,
    VIDEO_LE, VIDEO_GT, VIDEO_GE, VIDEO_COUNT } Video;

typedef enum { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR, COMBINE_COUNT } Combination;

typedef enum { CLASS_FINITE, CLASS_INFINITE, CLASS_NUMBER, CLASS_NOTANUMBER, CLASS_NORMAL, CLASS_SUBNORMAL, CLASS_COUNT
    } FloatClass;

typedef enum { CLOCK_LOW, CLOCK_HIGH, CLOCK_BOTH, CLOCK_COUNT } ClockWord;

typedef enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX, SHFL_COUNT } Shuffle;

typedef enum { VOTE_BALLOT, VOTE_ANY, VOTE_ALL, VOTE_UNI, VOTE_COUNT } Vote;

typedef enum { REDUX_ADD, REDUX_MIN_U32, REDUX_MAX_U32, REDUX_MIN_S32, REDUX_MAX_S32, REDUX_AND, REDUX_OR, REDUX_XOR,
    REDUX_MIN_F32, REDUX_MAX_F32, REDUX_COUNT } Reduction;

#endif
