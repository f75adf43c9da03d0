"""The modifiers of an engine instruction, by name: one structure per family of handlers.

A lowering gives `emit` a form; the handler reads the same fields from `i->form`.  A form has at
most `FORM_BYTES` bytes.  Fields that an instruction of the family does not have stay 0.
"""

from __future__ import annotations

import ctypes as ct
from typing import Any, ClassVar

FORM_BYTES = 16

U8, U16, U32, BOOL = ct.c_uint8, ct.c_uint16, ct.c_uint32, ct.c_bool
I16, I32 = ct.c_int16, ct.c_int32

FORMS: list[type[Form]] = []
"""Every form, in the order of definition."""


class Form(ct.Structure):
    """Base of the forms: a value that does not fit its field is an error, not a shorter value."""

    _names: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        for name, value in fields.items():
            if name not in self._names:
                raise TypeError(f"{type(self).__name__}: no field {name!r}")
            if getattr(self, name) != value:
                raise ValueError(f"{type(self).__name__}.{name}: {value} does not fit")


def form(cls: type[Form]) -> type[Form]:
    """Enter a form.

    Raises:
        TypeError: it is too long.
    """
    if ct.sizeof(cls) > FORM_BYTES:
        raise TypeError(f"{cls.__name__}: {ct.sizeof(cls)} bytes, a form has {FORM_BYTES}")
    cls._names = frozenset(field[0] for field in cls._fields_)
    FORMS.append(cls)
    return cls


# ---- registers ----------------------------------------------------------------------------------
@form
class Move(Form):
    """mov, packing, symbols, clocks: bits of a part or the destination, word of a clock."""

    _fields_ = [("bits", U8), ("word", U8), ("negated", BOOL)]


@form
class Integer(Form):
    """Integer arithmetic and bits.  `table`: of lop3, or VIDEO; `mode`: of prmt, or VideoFlag."""

    _fields_ = [
        ("a_signed", BOOL), ("b_signed", BOOL), ("shift_amount", BOOL), ("right", BOOL),
        ("wrap", BOOL), ("table", U8), ("mode", U8),
    ]  # fmt: skip


@form
class Floating(Form):
    """f32 and f64.  `full`: div.full; `maximum` and `flags` (Numeric): of min and max."""

    _fields_ = [
        ("rounding", U8), ("ftz", BOOL), ("sat", BOOL), ("full", BOOL), ("maximum", BOOL),
        ("flags", U8),
    ]  # fmt: skip


@form
class Half(Form):
    """16-bit floats: FORMATS, HALF_OPERATIONS, Numeric, values in a register."""

    _fields_ = [("format", U8), ("op", U8), ("flags", U8), ("halves", U8)]


@form
class Convert(Form):
    """cvt between scalars: CVT_TYPES, ROUNDINGS, Numeric, bits of the registers."""

    _fields_ = [
        ("to", U8), ("source", U8), ("rounding", U8), ("flags", U8), ("bits", U8),
        ("source_bits", U8),
    ]  # fmt: skip


@form
class Pack(Form):
    """cvt of packed formats: FORMATS, bits of an element; `sign_bit`: cvt.pack gives it one."""

    _fields_ = [
        ("to", U8), ("bits", U8), ("source", U8), ("source_bits", U8), ("rounding", U8),
        ("sign_bit", U8), ("relu", BOOL), ("satfinite", BOOL),
    ]  # fmt: skip


@form
class Compare(Form):
    """setp, set, selp, slct, testp, predicate logic.

    `negated_a`, `negated_b`: of predicate sources (setp and selp: of the only one); `number`: of
    COMPARISONS, or of CLASSES; `type`: of COMPARED; `as_float`: the selector of slct is a float.
    """

    _fields_ = [
        ("number", U8), ("type", U8), ("combine", U8), ("ftz", BOOL), ("negated_a", BOOL),
        ("negated_b", BOOL), ("packed", BOOL), ("as_float", BOOL),
    ]  # fmt: skip


@form
class Collective(Form):
    """Across a warp: `mode` of SHUFFLES, VOTES, REDUCTIONS, or all lanes of match."""

    _fields_ = [
        ("mode", U8), ("negated", BOOL), ("all", BOOL), ("wide", BOOL), ("absolute", BOOL),
        ("nan", BOOL),
    ]  # fmt: skip


@form
class Call(Form):
    """call: where the callee's frame begins, from the caller's; brx: entries of its table."""

    _fields_ = [("room", U32), ("indirect", BOOL), ("entries", U32)]


# ---- memory -------------------------------------------------------------------------------------
@form
class Memory(Form):
    """ld and st: Space, bytes of an element, bits of its registers and of the address, Order."""

    _fields_ = [
        ("space", U8), ("bytes", U8), ("register_bits", U8), ("is_signed", BOOL),
        ("address_bits", U8), ("order", U8),
    ]  # fmt: skip


@form
class FrameCopy(Form):
    """Arguments and results between frames: offsets from the lane's frame, bytes."""

    _fields_ = [("to", U32), ("source", U32), ("bytes", U32)]


@form
class Remote(Form):
    """st.async and red.async."""

    _fields_ = [
        ("op", U8), ("element", U8), ("bytes", U8), ("address_bits", U8), ("bar_bits", U8),
        ("bar_offset", I32),
    ]  # fmt: skip


@form
class Window(Form):
    """cvta, isspacep, mapa, getctarank.  `window`: high half of a generic address, 0 for global."""

    _fields_ = [("window", U32), ("own", BOOL), ("wide", BOOL)]


@form
class Atomic(Form):
    """atom and red: `packed` elements in one register, `elements` registers."""

    _fields_ = [
        ("space", U8), ("op", U8), ("element", U8), ("packed", U8), ("address_bits", U8),
        ("order", U8), ("register_bits", U8), ("elements", U8),
    ]  # fmt: skip


@form
class Matrix(Form):
    """ldmatrix and stmatrix: MATRIX_SHAPES, address lanes, bits of packed elements or 0."""

    _fields_ = [("space", U8), ("shape", U8), ("address_bits", U8), ("rows", U8), ("packed", U8)]


@form
class MapAccess(Form):
    """tensormap.replace, cp_fenceproxy, prefetch and acquire of a tensor map."""

    _fields_ = [
        ("space", U8), ("address_bits", U8), ("field", U8), ("ordinal", U8), ("value_bits", U8),
        ("source_bits", U8), ("source_offset", I32),
    ]  # fmt: skip


@form
class Texture(Form):
    """tex: dimensions, TexelType of the result, integer coordinates."""

    _fields_ = [("rank", U8), ("layered", BOOL), ("cube", BOOL), ("type", U8), ("integer", BOOL)]


@form
class Surface(Form):
    """suld and sust: dimensions, bytes of an element and bits of its registers, SURFACE_MODES."""

    _fields_ = [
        ("rank", U8), ("layered", BOOL), ("bytes", U8), ("register_bits", U8), ("mode", U8),
    ]  # fmt: skip


# ---- copies -------------------------------------------------------------------------------------
@form
class Copy(Form):
    """cp.async: cp-size, CpSource."""

    _fields_ = [
        ("size", U8), ("third", U8), ("address_bits", U8), ("source_bits", U8),
        ("source_offset", I32),
    ]  # fmt: skip


@form
class WaitGroup(Form):
    """Waits for groups of copies.  `read`: until the sources are read; `all`: wait_all."""

    _fields_ = [("read", BOOL), ("all", BOOL)]


@form
class Bulk(Form):
    """Bulk copies: CopyFlag, RedOp and Element of a reduction."""

    _fields_ = [
        ("flags", U8), ("space", U8), ("op", U8), ("element", U8), ("address_bits", U8),
        ("source_bits", U8), ("bar_bits", U8), ("source_offset", I32), ("bar_offset", I32),
    ]  # fmt: skip


@form
class Tensor(Form):
    """Tensor copies: CopyFlag, rank, spaces of the shared-memory address and of the tensor map."""

    _fields_ = [
        ("flags", U8), ("rank", U8), ("space", U8), ("map_space", U8), ("address_bits", U8),
        ("map_bits", U8), ("bar_bits", U8), ("op", U8), ("map_offset", I32), ("bar_offset", I32),
    ]  # fmt: skip


# ---- synchronisation ----------------------------------------------------------------------------
@form
class Mbarrier(Form):
    """mbarrier.* and cp.async.mbarrier.arrive: ArriveFlag, WaitFlag or Transaction."""

    _fields_ = [("space", U8), ("address_bits", U8), ("flags", U8)]


@form
class Barrier(Form):
    """bar, barrier.  `counted`: a thread count is given; `negated`: the predicate of .red;
    `aligned`: all threads of a warp execute it together."""

    _fields_ = [("kind", U8), ("counted", BOOL), ("negated", BOOL), ("aligned", BOOL)]


@form
class ClusterBarrier(Form):
    """barrier.cluster.arrive and wait."""

    _fields_ = [("relaxed", BOOL), ("aligned", BOOL)]


@form
class RegisterBudget(Form):
    """setmaxnreg."""

    _fields_ = [("grow", BOOL)]


@form
class Fence(Form):
    """fence, membar: FenceKind and its Order, or FenceSpace."""

    _fields_ = [("kind", U8), ("argument", U8)]


@form
class Cancel(Form):
    """clusterlaunchcontrol.  `axes`: coordinate that each destination of get_first_ctaid gets."""

    _fields_ = [
        ("space", U8), ("address_bits", U8), ("bar_bits", U8), ("everywhere", BOOL),
        ("axes", U8 * 4), ("bar_offset", I32),
    ]  # fmt: skip


# ---- tcgen05 ------------------------------------------------------------------------------------
@form
class Tmem(Form):
    """tcgen05.alloc, dealloc, relinquish_alloc_permit, commit, cp (CP_SHAPES, element's bits)."""

    _fields_ = [
        ("group", U8), ("address_bits", U8), ("generic", BOOL), ("multicast", BOOL), ("shape", U8),
        ("packed", U8),
    ]  # fmt: skip


@form
class TmemAccess(Form):
    """tcgen05.ld, st (LD_SHAPES, column offset of the upper half), wait, fence."""

    _fields_ = [
        ("shape", U8), ("packed", BOOL), ("half", U16), ("stores", BOOL), ("after", BOOL),
    ]  # fmt: skip


@form
class Mma(Form):
    """tcgen05.mma: MMA_KINDS, MmaFlag, elements of K per scale factor, address offsets."""

    _fields_ = [
        ("kind", U8), ("flags", U8), ("scale_d", U8), ("block", U8), ("a_offset", I32),
        ("sfa_offset", I16), ("sfb_offset", I16), ("meta_offset", I16),
    ]  # fmt: skip


# ---- wgmma --------------------------------------------------------------------------------------
@form
class Wgmma(Form):
    """wgmma.mma_async: WGMMA_ELEMENTS, WGMMA_RESULTS, WgmmaFlag, N; `first`: as in MmaSync."""

    _fields_ = [("a", U8), ("b", U8), ("d", U8), ("flags", U8), ("n", U16), ("first", U8)]


# ---- mma.sync -----------------------------------------------------------------------------------
@form
class MmaSync(Form):
    """mma.sync: SYNC_ELEMENTS, WGMMA_RESULTS, M, K, SyncFlag; `first` lane of 4 with metadata."""

    _fields_ = [
        ("a", U8), ("b", U8), ("d", U8), ("m", U8), ("k", U16), ("flags", U8), ("first", U8),
    ]  # fmt: skip
