"""Register tuning: choices that a kernel makes only for its registers, in one place.

Each costs something and buys registers: ``tests/kernel/code/test_spills.py`` holds that no kernel
spills with them. What is decided here:

* how many keys a tile has where scores change (:func:`most_keys`);
* whether P crosses to the columns of the other chain's S (:func:`choices_for`);
* how many columns of an fp8 V are multiplied together (:func:`most_columns`);
* how the loads of what changes scores are spread (:class:`ScoreLoads`);
* what Hopper's output decodes (:func:`decodes_again`), and who lends (:func:`splits_many_tiles`);
* when the row sum and its factor become one number (:func:`joins_sum_early`);
* who may have other registers than by default (:func:`attention_schedule`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ..config.config import FA4Config
from ..config.tile_config import RESIDENT_COLUMNS, FA4TileConfig
from ..config.tuning import RoleRegisters, Tuning
from ..facts.hardware import VECTOR_COLUMNS
from ..masks.masks import CAUSAL, NULL
from .schedule import WarpSchedule, two_group_schedule
from .variant import Scheduler, Variant

FEW_COLUMNS: Final = 64
"""Scores of a tile that leave registers for everything at once."""
PERSISTENT_DEPTH: Final = 96
"""O of so many columns and the cursors of a persistent CTA fit one of three consumers on Hopper."""
WIDE_DEPTH: Final = 128
"""Head dims above it leave a thread of the Hopper kernel few registers besides O."""
WIDER_DEPTH: Final = 192
"""Columns of V from which on fp8 operands leave no registers for S beside a block of P V."""
SEVERAL_TERMS_COLUMNS: Final = 96
"""Scores of an fp8 tile on Hopper that leave registers for the limits of several terms, or for
scales per token."""
COLUMNS_UNDER_WAY: Final = 16
"""Columns whose biases and auxiliary elements are loaded together, when there are several each."""
COLUMNS_LENT_FROM: Final = 2
"""The same of consumers on Hopper that lent registers."""
SHALLOW_DEPTH: Final = 64
"""Head dims of 16-bit operands up to which the softmax is the limit, not the tensor cores."""
PERSISTENT_DIVISOR: Final = 4
"""A persistent CTA carries its counts: a quarter of the loads."""
SCALES_DIVISOR: Final = 2
"""A scale per column takes the register of another load: half of them."""


def most_keys(variant: Variant, num_qo: int) -> int:
    """Return the most keys of a tile, 0 for as many as fit.

    A modifier needs registers: all scores of a tile stay in them, none is read twice. A persistent
    CTA that also writes partial results has none left for a modifier together with a bias, and
    neither have CTAs of one Q tile that share the keys, where terms have biases of their own. With
    stream-K several terms do not fit, nor a function of several tensors or beside scales per token.
    """
    function = variant.score_mod
    is_large = function is not None and (variant.token_scales or len(function.aux_ranks) > 1)
    if variant.streams_keys and (is_large or len(variant.terms) > 1):
        return FEW_COLUMNS
    if not variant.modifies_scores:
        return 0
    both = variant.score_mod is not None and bool(variant.bias_slots)
    shares = variant.splits_keys and num_qo == 1 and variant.has_biases_of_terms
    return FEW_COLUMNS if both and (shares or splits_many_tiles(variant)) else RESIDENT_COLUMNS


def choices_for(config: FA4TileConfig, variant: Variant) -> Tuning:
    """Return those choices of ``config`` that leave registers for what the variant holds.

    P that crosses waits in registers for the other chain's S. A function beside a bias or several
    terms leaves none; biases alone have loads under way there, which gain more. Up to
    ``SHALLOW_DEPTH`` in 16 bits these, and limits with stream-K, leave none for more exponentials
    than by default. A softcap has its own share.
    """
    scarce = variant.score_mod is not None and (bool(variant.bias_slots) or len(variant.terms) > 1)
    tuning = config.tuning.beside_softcap() if variant.changes.only_cap else config.tuning
    limited = scarce or (variant.streams_keys and _has_limits(variant))
    if limited and config.qkv_dtype_size > 1 and config.qk_depth <= SHALLOW_DEPTH:
        tuning = replace(tuning, emulated=min(tuning.emulated, Tuning().emulated))
    return replace(tuning, crosses=tuning.crosses and not (scarce or variant.changes.only_biases))


def holds_factor_address(config: FA4TileConfig, variant: Variant) -> bool:
    """Return whether the address of a row's correction factor stays in a register.

    Else each key tile asks for the thread's number. It is held where that is predicted to win: in
    CTAs that leave O to the correction role, with fp8 operands where V is as wide as Q and K. In 16
    bits, where query tiles are counted by rows, ptxas 13.4 has no register for it.
    """
    if config.qkv_dtype_size > 1:
        return config.correction_writes and not variant.by_rows
    return config.correction_writes and config.qk_depth == config.ov_depth


def most_consumers(variant: Variant, ov_depth: int, *, is_fp8: bool = False) -> int:
    """Return the most consumers of the Hopper kernel: two where a row needs many registers.

    The cursors of a persistent CTA do not fit beside an O of more than 96 columns and a whole tile
    of keys, scales per token or parts of query tiles not beside P V of a tile, and the first key
    tile of a split not beside two limits of a row.
    """
    changes = variant.modifies_scores and not _changes_briefly(variant, is_fp8=is_fp8)
    needs_many = changes or len(variant.terms) > 1 or variant.token_scales
    needs_many |= variant.is_split and (_has_limits(variant) or (is_fp8 and variant.is_persistent))
    return 2 if needs_many or (variant.is_persistent and ov_depth > PERSISTENT_DEPTH) else 3


def most_sm90_keys(variant: Variant, ov_depth: int, *, is_fp8: bool = False) -> int:
    """Return the most keys of a tile of the Hopper kernel, 0 for as many as fit.

    O is in registers, so a wide one, or a bias besides, leaves a modifier half as many. With fp8
    operands P V is there, too: a mask of several terms does not fit beside a whole tile, nor with a
    modifier beside half a one, and scales per token, or a split of each of many query tiles, only
    beside a narrow O. Two of these, or the widest O, leave several terms half a tile; scales per
    token leave a bias a quarter where keys are split or a row has several limits, and so do pages.
    """
    has_wide_sums = is_fp8 and ov_depth > FEW_COLUMNS
    is_scaled = variant.token_scales and has_wide_sums
    several, in_parts = len(variant.terms) > 1, splits_many_tiles(variant)
    adds = variant.changes.only_halves and not is_fp8
    adds &= ov_depth <= WIDE_DEPTH or not _has_more_limits(variant)
    if not variant.modifies_scores or adds or _changes_briefly(variant, is_fp8=is_fp8):
        if several and (is_scaled or in_parts or ov_depth > WIDER_DEPTH):
            return FEW_COLUMNS
        fewer = is_scaled or (is_fp8 and several) or (has_wide_sums and in_parts)
        return SEVERAL_TERMS_COLUMNS if fewer else 0
    function, biases = variant.score_mod, variant.bias_slots
    if function is not None and not (function.aux_ranks or biases or is_fp8 or several):
        return RESIDENT_COLUMNS  # Of two consumers: three have too few registers for any.
    scarce = ov_depth > WIDE_DEPTH or bool(biases) or has_wide_sums or (is_fp8 and several)
    fewer = function is not None
    fewer |= is_scaled and (variant.is_split or _has_more_limits(variant))
    fewer |= has_wide_sums and variant.is_persistent and variant.page_size > 0
    return FEW_COLUMNS // 2 if fewer and scarce and not variant.changes.are_brief else FEW_COLUMNS


def most_columns(variant: Variant, ov_depth: int, *, few_rows: bool = False) -> int:
    """Return the most columns of an fp8 V that are multiplied together, 0 for those of the tile.

    Beside a V of more than 128 columns whatever changes a row takes the registers of half a block,
    and of the next S; terms with biases of their own take another half beside scales per token, in
    the tile of few rows, and beside a function in consumers that lent registers. The tile of few
    rows has fewer keys: up to 192 columns leave room for all others, and more for one change. Split
    keys with a bias and a function take half a block there, and another for scales per token, which
    they take beside the widest V of any tile. With stream-K a consumer writes whole query tiles and
    parts of them: whatever changes a row, or limits it besides a causal mask, takes half a block or
    more there. Consumers that lent registers have less by half a block where V is widest, and by
    another beside scales per token and a function. With both, several terms of a persistent CTA
    leave a V of up to 128 columns no whole block either; where keys are split, only those with
    biases.
    """
    several, is_widest = len(variant.terms) > 1, ov_depth > WIDER_DEPTH
    is_scaled, modifies = variant.token_scales, variant.modifies_scores
    has_function, lends = variant.score_mod is not None, splits_many_tiles(variant)
    if few_rows and variant.streams_keys and (_has_limits(variant) or modifies):
        halves = is_widest + (variant.has_biases_of_terms and has_function)
        return FEW_COLUMNS >> halves
    if ov_depth <= WIDE_DEPTH:
        differ = variant.has_biases_of_terms if lends else several
        scarce = variant.is_persistent and differ and is_scaled and has_function
        return FEW_COLUMNS if scarce and ov_depth > FEW_COLUMNS else 0
    both = has_function and bool(variant.bias_slots) and variant.is_split
    of_terms = variant.has_biases_of_terms and (is_scaled or few_rows or (lends and has_function))
    if of_terms or (both and is_scaled and (few_rows or is_widest)):
        return FEW_COLUMNS // 2
    if lends and is_widest:
        return FEW_COLUMNS // 2 if is_scaled and has_function else FEW_COLUMNS
    if few_rows and is_widest and several and has_function:
        return FEW_COLUMNS // 2
    if few_rows:
        scarce = both or (is_widest and (several or (is_scaled and modifies)))
        return FEW_COLUMNS if scarce else 0
    return FEW_COLUMNS if several or modifies or (is_widest and is_scaled) else 0


def most_few_rows_keys(variant: Variant, depth: int, *, is_fp8: bool) -> int:
    """Return the same for the tile of few rows: a modifier costs it half of the keys more.

    Its two warp groups start with fewer registers than the consumer ends with. Parts of query tiles
    leave several terms half as many beside the widest O.
    """
    if is_fp8 and variant.score_mod is not None:
        return FEW_COLUMNS // 2
    most = most_sm90_keys(variant, depth)
    if variant.streams_keys and len(variant.terms) > 1 and depth > WIDER_DEPTH:
        most = FEW_COLUMNS // 2
    return most if variant.score_mod is None else most // 2


def decodes_again(variant: Variant) -> bool:
    """Return whether a consumer on Hopper decodes its query tile anew for the output.

    It takes some divisions for each query tile. Else what only the output needs is held over the
    loop, beside one limit of each row: all that a causal mask needs there. Other masks, modifiers,
    and a sink, which only some splits have, need more.
    """
    several = _has_limits(variant) or variant.modifies_scores
    return several or (variant.is_split and variant.sink)


def _has_limits(variant: Variant) -> bool:
    """Return whether a row may need more than the one limit that a causal mask gives it."""
    return variant.mask not in (NULL, CAUSAL)


def _has_more_limits(variant: Variant) -> bool:
    """Return the same, but for biases, which limit nothing."""
    others = {leaf for term in variant.terms for leaf in term.leaves}
    return len(variant.terms) > 1 or not others <= {CAUSAL, *variant.changes.biases}


def _changes_briefly(variant: Variant, *, is_fp8: bool) -> bool:
    """Whether changes of scores leave a Hopper consumer its registers: brief ones, in 16 bits."""
    return variant.changes.are_brief and not (is_fp8 or _has_limits(variant))


def splits_many_tiles(variant: Variant) -> bool:
    """Return whether each CTA splits the keys of many query tiles.

    What transposes V on Hopper then decodes too much for its registers, and consumers lend it some.
    """
    return variant.is_split and variant.is_persistent


def joins_sum_early(variant: Variant) -> bool:
    """Return whether sum and factor are multiplied before the exponentials, at a rounding more.

    A mask of several terms holds the limits of each meanwhile, and one register less shortens T1.
    """
    return len(variant.terms) > 1 and not variant.modifies_scores


def is_plain(variant: Variant) -> bool:
    """Return whether a kernel has a mask of one term at most, without tensors, and nothing else."""
    bare = replace(variant, mask=NULL, return_lse=False) == Variant()
    return bare and len(variant.terms) <= 1 and not (variant.bias_slots or variant.padding_slots)


def is_plain_in_any_order(variant: Variant) -> bool:
    """Return whether a kernel is plain, whoever takes its query tiles."""
    return is_plain(replace(variant, scheduler=Scheduler.TILE))


def attention_schedule(config: FA4Config, variant: Variant) -> WarpSchedule:
    """Return warps and registers: page lookups need a few registers more in the load role.

    The free choice is a plain kernel's. Features need more in the single warps than it may leave.
    """
    registers = config.tuning.registers
    if variant.scheduler is Scheduler.PERSISTENT or not is_plain_in_any_order(variant):
        by_default = RoleRegisters()
        registers = by_default.with_more_to_load() if variant.page_size else by_default
    apart, asks = config.loads_values_apart, variant.is_dynamic
    return two_group_schedule(registers).with_single_warps(asks=asks, loads_apart=apart)


def keeps_p_in_memory(variant: Variant) -> bool:
    """Return whether P of a pair goes through shared memory for want of registers.

    With a function over the scores and biases that differ between terms, in a persistent pair, one
    kernel in whose Tensor Memory P lay had 8 instructions that spill.
    """
    changes_much = variant.has_biases_of_terms and variant.score_mod is not None
    return changes_much and variant.is_persistent


@dataclass(frozen=True)
class ScoreLoads:
    """When a softmax thread loads what changes the scores of its columns.

    ====================================  =========  ============  ==========  ============
    what is loaded per column             under_way  scales_along  fresh_view  fresh_stores
    ====================================  =========  ============  ==========  ============
    one array or none                     0          no            no          no
    several arrays                        16         no            no          no
    several arrays, scales per token      8          yes           no          no
    biases that differ between terms      16         no            yes         yes
    these biases, scales per token        16         no            yes         no
    in a persistent CTA                   a quarter  as above      as above    as fresh_view
    ====================================  =========  ============  ==========  ============

    The assembler starts the loads of all columns at once unless barriers keep them apart, and lacks
    registers for the addresses of several arrays. Scales per token are loaded along with the arrays
    or before them, where fewer registers are in use.

    Args:
        under_way: columns whose loads are started together; 0: those of all columns.
        scales_along: scales per token are loaded with them, not before them.
        fresh_view: what the row sees is derived anew in every tile, not held across tiles.
        fresh_stores: so are the addresses of P in shared memory.
    """

    under_way: int = 0
    scales_along: bool = False
    fresh_view: bool = False
    fresh_stores: bool = False

    @classmethod
    def of(cls, variant: Variant) -> ScoreLoads:
        """Return the row of the table that ``variant`` falls into."""
        aux_ranks = variant.score_mod.aux_ranks if variant.score_mod else ()
        of_terms = variant.has_biases_of_terms
        if not of_terms and len(variant.bias_slots) + len(aux_ranks) <= 1:
            return cls()
        along = variant.token_scales and not of_terms
        divisor = PERSISTENT_DIVISOR if variant.is_persistent else 1
        divisor *= SCALES_DIVISOR if along else 1
        fresh_stores = of_terms and (variant.is_persistent or not variant.token_scales)
        return cls(COLUMNS_UNDER_WAY // divisor, along, of_terms, fresh_stores)

    def for_lent_registers(self, ov_depth: int) -> ScoreLoads:
        """Return the row for consumers on Hopper that lent some to what transposes V.

        Of several arrays what the row sees is not held, and beside the widest V two columns at a
        time are loaded.
        """
        if not self.is_limited:
            return self
        return ScoreLoads(COLUMNS_LENT_FROM if ov_depth > WIDER_DEPTH else 0, fresh_view=True)

    def for_few_rows(self, variant: Variant, ov_depth: int) -> ScoreLoads:
        """Return the row for the tile of few rows on Hopper, whose keys are few.

        Beside the widest V, split keys, scales per token, a function and biases that differ between
        terms the loads of all columns start at once: what holds them apart takes registers.
        """
        changes = variant.has_biases_of_terms and variant.score_mod is not None
        scarce = changes and variant.is_split and variant.token_scales and ov_depth > WIDER_DEPTH
        return ScoreLoads() if scarce else self

    @property
    def is_limited(self) -> bool:
        """Whether the loads of a group of columns wait for those of the group before."""
        return self.under_way > 0

    def groups(self, num_columns: int) -> tuple[range, ...]:
        """Return the columns whose loads are started together, group by group."""
        width = self.under_way or num_columns
        return tuple(
            range(i, min(i + width, num_columns)) for i in range(0, num_columns, width)
        )

    def scaled_columns(self, group: range) -> range:
        """Return the columns that are scaled along with ``group``: whole vectors of scales."""
        if not self.scales_along or group.start % VECTOR_COLUMNS:
            return range(0)
        return range(group.start, group.start + max(self.under_way, VECTOR_COLUMNS))
