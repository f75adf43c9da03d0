"""Structures and functions that cross the border between Python and the engine."""

from __future__ import annotations

import ctypes as ct

from .forms import FORM_BYTES

U8, U16, U32, I32 = ct.c_uint8, ct.c_uint16, ct.c_uint32, ct.c_int32
U64, I64 = ct.c_uint64, ct.c_int64

CODE_BYTES, TEXT_BYTES = 48, 464
"""Room of a finding's code and of its text, with their final zeros."""

REGION_KINDS = ("read_only", "writable", "heap")
"""What kernels may do with an allocation; in a heap they may touch what malloc gave."""
HEAP_BLOCKS = 1 << 16

LOADED, OUT_OF_MEMORY = -1, -2
"""What loading a program answers, if not the index of an instruction that the engine lacks."""


class RawIns(ct.Structure):
    """One instruction as Python hands it over.

    Slots are byte offsets into the warp's register block; `guard` is a predicate's slot or NONE32;
    `first_operand` counts in RawProgram.operands: destinations, then sources; `target` and `reconv`
    are instruction indices of branches.
    """

    _fields_ = [
        ("op", U32), ("line", U32), ("guard", U32), ("guard_negated", U32), ("n_destinations", U32),
        ("n_sources", U32), ("cost", U32), ("unit", U32), ("first_operand", U32), ("target", U32),
        ("reconv", U32), ("form", U8 * FORM_BYTES), ("imm", I64),
    ]  # fmt: skip


class Special(ct.Structure):
    """A register slot to fill at warp start, and with which of SPECIALS."""

    _fields_ = [("slot", U32), ("kind", U32)]


class SlotWidth(ct.Structure):
    """A register slot and its bits per lane; 1 for a predicate."""

    _fields_ = [("slot", U32), ("bits", U32)]


class RawFunction(ct.Structure):
    """A device function of a program.

    `entry`: index of its first instruction, or NONE32 where the program lacks it; its registers are
    `n_slots` of RawProgram.slots from `first_slot` on; `frame_bytes`: local memory that it takes;
    `recursive`: a call of it may come while it runs.
    """

    _fields_ = [
        ("entry", U32), ("first_slot", U32), ("n_slots", U32), ("frame_bytes", U32),
        ("recursive", U32),
    ]  # fmt: skip


class RawProgram(ct.Structure):
    """A kernel ready to run.

    `registers`: the template of a warp's register block, with the constants in place;
    `static_smem`: bytes of static shared variables, which lie before the dynamic ones;
    `entry_registers`: registers per thread at entry, 0 when unknown; `local_bytes`: local memory of
    each thread; `tables`: the targets of indirect branches; `functions`: by number; `slots`: their
    registers; `frame`: the slot that holds where each lane's frame begins, or NONE32.
    """

    _fields_ = [
        ("code", ct.POINTER(RawIns)), ("operands", ct.POINTER(U32)), ("registers", ct.POINTER(U8)),
        ("specials", ct.POINTER(Special)), ("n_code", U32), ("n_operands", U32),
        ("register_bytes", U32), ("n_specials", U32), ("static_smem", U32),
        ("entry_registers", U32), ("local_bytes", U32), ("frame", U32),
        ("functions", ct.POINTER(RawFunction)), ("slots", ct.POINTER(SlotWidth)),
        ("tables", ct.POINTER(U32)), ("n_functions", U32), ("n_slots", U32), ("n_tables", U32),
    ]  # fmt: skip


class Options(ct.Structure):
    """How a launch is executed.

    `check`: a set of Check; `trace_cluster`: its index or NONE32; `max_instructions`: 0 for
    any number; `talks`: clusters may wait for one another.
    """

    _fields_ = [
        ("grid", U32 * 3), ("block", U32 * 3), ("cluster", U32 * 3), ("dynamic_smem", U32),
        ("n_params_bytes", U32), ("mode", U32), ("poison", U32), ("check", U32), ("exact_mma", U32),
        ("trace_cluster", U32), ("max_findings", U32), ("talks", U32), ("seed", U64),
        ("max_idle_instructions", U64), ("max_instructions", U64),
    ]  # fmt: skip


class Region(ct.Structure):
    """A known global allocation; `kind`: of REGION_KINDS."""

    _fields_ = [("lo", U64), ("hi", U64), ("kind", U32)]


class Heap(ct.Structure):
    """The beginning of a heap that outlives launches; HEAP_BLOCKS Regions of malloc follow it.

    `limit`: bytes that may be in use, of which `used` are; `next`: where the next block lies;
    `blocks`: how many of the Regions are in use.
    """

    _fields_ = [("limit", U64), ("used", U64), ("next", U64), ("blocks", U64)]


class RawFinding(ct.Structure):
    """Something wrong at a PTX line, and how often it was seen; `rank` and `warp` may be NONE32.

    `cluster`: the index of the one in which it was seen first.
    """

    _fields_ = [
        ("code", ct.c_char * CODE_BYTES), ("text", ct.c_char * TEXT_BYTES), ("severity", U32),
        ("count", U32), ("line", U32), ("line2", U32), ("rank", U32), ("warp", U32), ("lane", U32),
        ("ctaid", U32 * 3), ("cluster", U64),
    ]  # fmt: skip


class RawEvent(ct.Structure):
    """An entry of the timeline; `a` and `b` are the kind's own numbers (report.Event)."""

    _fields_ = [
        ("kind", U32), ("rank", U32), ("warp", U32), ("lane", U32), ("line", U32), ("t0", U64),
        ("t1", U64), ("a", U64), ("b", U64),
    ]  # fmt: skip


class RawRecording(ct.Structure):
    """Of which clusters, and of which instructions, a machine records the executions.

    `clusters`: a ClusterPlan per cluster of the launch; `kept`: not 0 for instructions that are
    recorded; `first`: per instruction, and at the end, where its registers begin in `slots`, whose
    values are recorded before it is executed. `out_taken`: by cluster, whether another one took it
    over, which they do as where all places of the chip are taken; NULL: the first takes over all.
    All of it stays with the caller.
    """

    _fields_ = [
        ("clusters", ct.POINTER(U8)), ("kept", ct.POINTER(U8)), ("first", ct.POINTER(U32)),
        ("slots", ct.POINTER(SlotWidth)), ("out_taken", ct.POINTER(U8)),
    ]  # fmt: skip


class RawStep(ct.Structure):
    """An execution of an instruction by lanes of a warp that share a program counter.

    `mask`: lanes whose guard holds, of those in `active`; `value`: where the values of its
    registers begin: of one register after the other, those of the lanes in `mask`; `notes`: what
    its handler tells (state.h, Ctx).
    """

    _fields_ = [
        ("cluster", U32), ("rank", U16), ("warp", U16), ("instruction", U32), ("mask", U32),
        ("active", U32), ("pad", U32), ("value", U64), ("notes", U64 * 3),
    ]  # fmt: skip


class Totals(ct.Structure):
    """Counts of a run.  `lost`: findings or access history had to be dropped."""

    _fields_ = [
        ("instructions", U64), ("thread_instructions", U64), ("clusters_done", U64),
        ("clusters_total", U64), ("tma_bytes_loaded", U64), ("tma_bytes_stored", U64),
        ("mma_instructions", U64), ("mma_flops", U64), ("faulted", U32),
        ("lost", U32),
    ]  # fmt: skip


class Progress(ct.Structure):
    """What a running machine has done so far; written by the engine, read by another thread."""

    _fields_ = [("clusters", U64), ("instructions", U64)]


class Rule(ct.Structure):
    """A rule that a descriptor breaks: the fault's code and a sentence."""

    _fields_ = [("code", ct.c_char_p), ("text", ct.c_char_p)]


class InstrDesc(ct.Structure):
    """The instruction descriptor of tcgen05.mma, decoded; M counts the rows of a pair's CTAs.

    `stationary`: of tcgen05.mma.ws.
    """

    _fields_ = [
        ("kind", U32), ("group", U32), ("a", U32), ("b", U32), ("d", U32), ("m", U32), ("n", U32),
        ("k", U32), ("neg_a", ct.c_bool), ("neg_b", ct.c_bool), ("mn_a", ct.c_bool),
        ("mn_b", ct.c_bool), ("saturate", ct.c_bool), ("ue8m0", ct.c_bool), ("sfa_id", U32),
        ("sfb_id", U32), ("stationary", ct.c_bool),
    ]  # fmt: skip


class Handle(ct.c_void_p):
    """The engine's `Machine`, which only the engine looks into."""


class Shared(ct.c_void_p):
    """The engine's `Share`, which only the engine looks into."""


STRUCTURES: tuple[type[ct.Structure], ...] = (
    RawIns, Special, SlotWidth, RawFunction, RawProgram, Options, Region, Heap, RawFinding,
    RawEvent, RawRecording, RawStep, Totals, Progress, Rule, InstrDesc,
)  # fmt: skip

Signature = tuple[type | None, tuple[tuple[str, type], ...]]

FUNCTIONS: dict[str, Signature] = {
    "sm100_contract": (ct.c_char_p, ()),
    "sm100_opcode_count": (U32, ()),
    "sm100_opcode_name": (ct.c_char_p, (("op", U32),)),
    "sm100_machine_new": (Handle, (("options", ct.POINTER(Options)),)),
    "sm100_machine_load": (I32, (("m", Handle), ("program", ct.POINTER(RawProgram)))),
    "sm100_machine_memory": (
        I32,
        (
            ("m", Handle), ("regions", ct.POINTER(Region)), ("count", U32),
            ("params", ct.POINTER(U8)),
        ),
    ),
    "sm100_machine_run": (None, (("m", Handle), ("out_progress", ct.POINTER(Progress)))),
    "sm100_machine_findings": (
        U32, (("m", Handle), ("out", ct.POINTER(RawFinding)), ("room", U32)),
    ),
    "sm100_machine_events": (U64, (("m", Handle), ("out", ct.POINTER(RawEvent)), ("room", U64))),
    "sm100_machine_record": (None, (("m", Handle), ("recording", ct.POINTER(RawRecording)))),
    "sm100_machine_steps": (U64, (("m", Handle), ("out", ct.POINTER(RawStep)), ("room", U64))),
    "sm100_machine_values": (U64, (("m", Handle), ("out", ct.POINTER(U64)), ("room", U64))),
    "sm100_machine_output": (U64, (("m", Handle), ("out", ct.POINTER(U8)), ("room", U64))),
    "sm100_machine_totals": (None, (("m", Handle), ("out", ct.POINTER(Totals)))),
    "sm100_machine_counts": (
        None,
        (
            ("m", Handle), ("out_per_opcode", ct.POINTER(U64)),
            ("out_per_instruction", ct.POINTER(U64)),
        ),
    ),
    "sm100_machine_stop": (None, (("m", Handle),)),
    "sm100_machine_free": (None, (("m", Handle),)),
    "sm100_share_new": (Shared, (("options", ct.POINTER(Options)),)),
    "sm100_machine_share": (ct.c_bool, (("m", Handle), ("share", Shared))),
    "sm100_share_holds": (ct.c_bool, (("share", Shared),)),
    "sm100_share_undo": (None, (("share", Shared),)),
    "sm100_share_free": (None, (("share", Shared),)),
    # For tests that compare the engine with other statements of the same layouts.
    "smem_unit_address": (
        U32, (("descriptor", U64), ("mn_major", ct.c_bool), ("mn", U32), ("k", U32)),
    ),
    "instr_desc_decode": (
        ct.POINTER(Rule),
        (
            ("bits", U32), ("kind", U32), ("group", U32), ("stationary", ct.c_bool),
            ("out", ct.POINTER(InstrDesc)),
        ),
    ),
}  # fmt: skip
"""Functions that the engine exports: name -> (result, arguments); `out...` are written."""
