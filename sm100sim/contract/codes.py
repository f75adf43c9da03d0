"""Numbers that stand for words on both sides, and limits of the machine."""

from __future__ import annotations

from enum import IntEnum, IntFlag

NONE32 = 0xFFFFFFFF
"""No slot, no instruction, no rank."""
LANES = 32
MAX_CLUSTER = 16
"""CTAs of a cluster."""
MAX_WARPS = 32
"""Warps of a CTA."""
SM_COUNT = 148
"""Streaming multiprocessors of a B200."""
REGISTER_FILE = 65536
"""32-bit registers per SM."""
REGISTER_UNIT = 8
"""Registers per thread are given out in steps of this."""
WARPGROUP_WARPS = 4
SMEM_RESERVED = 1024
"""Bytes at the bottom of the shared window that belong to the system."""
SMEM_LENT = 288
"""Of those, bytes from 0 on that a kernel may use that asks for %reserved_smem_offset_1: an H100
says 0 for it, and 288 for the end; the header of cooperative groups relies on as many."""
SMEM_UNIT = 128
"""Shared memory is given out in steps of this (CUDA programming guide)."""
SMEM_MAX = 233472
"""Bytes of shared memory per SM, 228 KiB, the reserved ones included."""
SLOT_GRAIN = 8
"""Register slots are multiples of this; validity is kept per grain."""

WINDOW_RANK_SHIFT = 24
"""An address in the shared window: the CTA's rank in the cluster from this bit on, an
offset below."""
WINDOW_SHARED = 1 << 24
"""High half of a generic address that points into the shared window of a CTA of the cluster."""
WINDOW_PARAM = 2 << 24
"""The same for the parameter buffer; the low half is an offset."""
WINDOW_LOCAL = 3 << 24
"""The same for the thread's local memory."""
WINDOW_CODE = 4 << 24
"""The same for the address of a device function: its number + 1, times CODE_GRAIN."""
CODE_GRAIN = 16


class Unit(IntEnum):
    """Which pipe an instruction occupies."""

    ALU = 0
    MUFU = 1
    LSU = 2
    SYNC = 3
    TMEM = 4
    MMA = 5
    TMA = 6


class ClusterPlan(IntEnum):
    """What a machine that records does with a cluster."""

    LEFT_OUT = 0
    RUN = 1
    RECORDED = 2


class Severity(IntEnum):
    """A finding is reported and the run goes on; a fault stops it."""

    FINDING = 0
    FAULT = 1


SPECIALS = tuple(
    [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    + ["laneid", "warpid", "nwarpid", "smid", "nsmid"]
    + [
        f"{name}.{axis}"
        for name in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyz"
    ]
    + ["cluster_ctarank", "cluster_nctarank", "is_explicit_cluster"]
    + [f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")]
    + ["gridid", "dynamic_smem_size", "total_smem_size", "aggr_smem_size", "current_graph_exec"]
    + [f"reserved_smem_offset_{part}" for part in ("begin", "end", "0", "1", "cap")]
    + ["smem_base", "frame", "constant"]
)
"""Special registers.  smem_base: where the CTA's shared window starts, added to a shared symbol's
offset; frame: where the frame of the lane's function begins in its local memory; constant: a slot
whose value is in the register template already."""


# ---- addresses and memory order -----------------------------------------------------------------
class Space(IntEnum):
    """State space of an address."""

    GENERIC = 0
    SHARED_CTA = 1
    SHARED_CLUSTER = 2
    GLOBAL = 3
    PARAM = 4
    LOCAL = 5


class Scope(IntEnum):
    """Scope of an access or a fence."""

    WEAK = 0
    CTA = 1
    CLUSTER = 2
    DEVICE = 3


class Order(IntFlag):
    """Strength of an access or a fence: its scope in the low bits, and what it does."""

    SCOPE = 3
    ACQUIRE = 4
    RELEASE = 8
    READ = 16
    UPDATE = 32


class FenceKind(IntEnum):
    """What a fence orders."""

    PROXY_ASYNC = 0
    MBARRIER_INIT = 1
    WAIT_LD = 2
    WAIT_ST = 3
    BEFORE = 4
    AFTER = 5
    MEMBAR = 6


class FenceSpace(IntFlag):
    """Spaces of a proxy fence."""

    SHARED = 1
    GLOBAL = 2


class RedOp(IntEnum):
    """Operation of an atomic or a reduction."""

    add = 0
    min = 1
    max = 2
    and_ = 3
    or_ = 4
    xor = 5
    inc = 6
    dec = 7
    exch = 8
    cas = 9


class Element(IntEnum):
    """Element of an atomic or a reduction; F64_SHARED: a sum in shared memory, with other NaNs."""

    U8 = 0
    U16 = 1
    U32 = 2
    S32 = 3
    U64 = 4
    S64 = 5
    F16 = 6
    BF16 = 7
    F32 = 8
    F32_FTZ = 9
    F64 = 10
    F64_SHARED = 11


MATRIX_SHAPES = ("b16", "b16_trans", "b8_16x16", "b8_16x8")
"""Shapes of ldmatrix and stmatrix; those of 8-bit elements are transposed."""


# ---- copies -------------------------------------------------------------------------------------
class CopyFlag(IntFlag):
    """Forms of bulk and tensor copies.  PAIR: .cta_group::2; ROWS: gather4 and scatter4."""

    FROM_GLOBAL = 1
    MULTICAST = 2
    REDUCE = 4
    BYTE_MASK = 8
    PAIR = 16
    ROWS = 32
    IM2COL = 64


class CpSource(IntEnum):
    """Third operand of cp.async: none, bytes to read, or a predicate that ignores the source."""

    WHOLE = 0
    SIZE = 1
    IGNORE = 2


MAP_FIELDS = (
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "fill_mode",
)
"""Fields of a tensor map that tensormap.replace names."""


# ---- synchronisation ----------------------------------------------------------------------------
class BarrierKind(IntEnum):
    """Forms of bar and barrier."""

    SYNC = 0
    ARRIVE = 1
    RED_POPC = 2
    RED_AND = 3
    RED_OR = 4


class ArriveFlag(IntFlag):
    """Forms of mbarrier.arrive.  WIDE: cluster scope; NOINC: of cp.async.mbarrier.arrive."""

    DROP = 1
    NO_COMPLETE = 2
    EXPECT = 4
    STATE = 8
    RELAXED = 16
    WIDE = 32
    NOINC = 64


class WaitFlag(IntFlag):
    """Forms of mbarrier.test_wait and try_wait."""

    TRY = 1
    PARITY = 2
    RELAXED = 4
    WIDE = 8


class Transaction(IntEnum):
    """mbarrier.expect_tx or complete_tx."""

    EXPECT = 0
    COMPLETE = 1


# ---- tcgen05 ------------------------------------------------------------------------------------
MMA_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
"""Kinds of tcgen05.mma; those from the fifth on are block-scaled."""


class MmaFlag(IntFlag):
    """Optional parts of tcgen05.mma.  MASKED: with disable-output-lane; PAIR: cta_group::2; ZEROS:
    .ws with a zero-column mask; SPARSE: .sp, whose metadata has the place of the factors of A."""

    A_TMEM = 1
    NOT_ENABLE = 2
    MASKED = 4
    PAIR = 8
    STATIONARY = 16
    ZEROS = 32
    SPARSE = 64


LD_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
"""Shapes of tcgen05.ld and st."""

CP_SHAPES = (
    "128x256b", "128x128b", "4x256b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23",
    "32x128b.warpx4",
)  # fmt: skip
"""Shapes of tcgen05.cp with their multicast."""


# ---- wgmma --------------------------------------------------------------------------------------
WGMMA_ELEMENTS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8")
"""Types of A and B of wgmma.mma_async."""

WGMMA_RESULTS = ("f16", "f32", "s32")
"""Types of D."""


class WgmmaFlag(IntFlag):
    """Optional parts of wgmma.mma_async."""

    A_REGISTERS = 1
    NOT_SCALE_D = 2
    NEGATE_A = 4
    NEGATE_B = 8
    TRANSPOSE_A = 16
    TRANSPOSE_B = 32
    SATURATE = 64
    SPARSE = 128


# ---- arithmetic ---------------------------------------------------------------------------------
class Numeric(IntFlag):
    """Modifiers of arithmetic and conversions.  INTEGRAL: rounds to an integer."""

    FTZ = 1
    SAT = 2
    RELU = 4
    NAN = 8
    XORSIGN = 16
    ABS = 32
    INTEGRAL = 64
    SATFINITE = 128


ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0", "f32")
CVT_TYPES = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")
"""Types of scalar conversions: the unsigned ones have even numbers."""
HALF_OPERATIONS = ("add", "sub", "mul", "fma", "min", "max", "neg", "abs", "ex2", "tanh")
PRMT_MODES = ("index", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
VIDEO = ("add", "sub", "avrg", "absdiff", "min", "max", "eq", "ne", "lt", "le", "gt", "ge")
"""Operations of the instructions on pairs and on four bytes; the last six are those of vset."""


class VideoFlag(IntFlag):
    """Forms of these.  SUM: .add, the results are added to c; SIGNED: what .sat clamps to."""

    SUM = 1
    SAT = 2
    SIGNED = 4


COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
"""Comparisons; those from the seventh on are of floats only."""
COMPARED = ("u32", "s32", "u64", "s64", "s16", "f32", "f64", "f16", "bf16")
"""Types that comparisons run in."""
COMBINATIONS = ("none", "and", "or", "xor")
CLASSES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
CLOCK_WORDS = ("low", "high", "both")

# ---- across a warp ------------------------------------------------------------------------------
SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("ballot", "any", "all", "uni")
REDUCTIONS = (
    "add", "min_u32", "max_u32", "min_s32", "max_s32", "and", "or", "xor", "min_f32", "max_f32",
)  # fmt: skip
