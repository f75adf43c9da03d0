"""``Depth512Spec``: everything one compiled CTA-pair kernel is specialised on.

The order in which the MMA role issues, and in which the load role fills the ring, is data::

    look_ahead   S0 S1 O0 S2 O1 S3 O2 ..   softmax of tile n+1 runs during P V of tile n
    otherwise    S0 O0 S1 O1 S2 O2 ..      the tensor cores idle while the softmax runs

With look-ahead, S of tile n+1 no longer follows P V of tile n, so its arrival does not tell the
softmax that P may be overwritten; it waits for the last accumulation of the tile before instead
(``docs/sources.md`` section 10).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..compute.column_plan import ColumnPlan
from ..compute.exp2_plan import Exp2Plan
from ..config.depth512_config import Depth512Config
from ..config.tuned import TUNED
from ..config.tuning import Tuning, tuning_of
from ..facts.dtypes import DType
from .common_spec import CommonSpec, may_write_rows, refuse, variant_of, with_features
from .depth512_limits import unsupported_reason
from .register_tuning import ScoreLoads, keeps_p_in_memory
from .schedule import DEPTH512_SCHEDULE, DEPTH512_STREAMED_SCHEDULE, WarpSchedule
from .variant import Partition, Variant

SMALLEST_DEPTH = 193
"""Smaller head dims run on the kernel with two Q tiles per CTA."""


@dataclass(frozen=True)
class Depth512Spec(CommonSpec):
    """Static choices of one compile; lengths, batch, heads and scale stay run-time values.

    Args:
        config: tiles, ring and memory.
        variant: mask, score modifier and the other features.
        look_ahead: issue the scores of the next key tile before P V of this one.
        tuning: free choices; of those of the other kernel only the share of emulated exponentials.
        schedule: warps and registers of the roles.
    """

    config: Depth512Config
    variant: Variant = field(default=Variant())
    look_ahead: bool = True
    tuning: Tuning = field(default=Tuning())
    schedule: WarpSchedule = field(default=DEPTH512_SCHEDULE)

    @classmethod
    def for_attention(
        cls,
        dtype: DType,
        head_dim: int,
        *,
        group: int = 1,
        causal: bool = False,
        return_lse: bool = False,
        variant: Variant | None = None,
        look_ahead: bool = True,
    ) -> Depth512Spec:
        """Return the CTA-pair kernel for one element type, head dimension and group size.

        ``causal`` and ``return_lse`` are short forms for a ``variant`` that has only these.

        Raises:
            ValueError: naming the limit, when no such kernel exists.
        """
        if head_dim < SMALLEST_DEPTH:
            raise ValueError(
                f"head_dim={head_dim}: the CTA-pair kernel starts at {SMALLEST_DEPTH}; nearest "
                f"supported choice: head_dim=200"
            )
        variant = variant_of(variant, causal=causal, return_lse=return_lse)
        if variant.in_cluster:
            raise ValueError(
                f"split='cluster': the CTA pair of head_dim={head_dim} shares no keys; nearest "
                f"supported choice: split='workspace'"
            )
        if variant.partition is Partition.LAST:
            raise ValueError(
                f"split='last': no CTA pair of head_dim={head_dim} joins the splits of others; "
                f"nearest supported choice: split='workspace'"
            )
        config = Depth512Config.for_attention(
            dtype, head_dim, group=group, page_size=variant.page_size
        )
        p_in_memory = keeps_p_in_memory(variant)
        # Scales of keys leave no registers for wider chunks, P in memory has narrow ones.
        keeps_narrow = variant.token_scales or p_in_memory
        config = replace(
            with_features(config, variant),
            dynamic=variant.is_dynamic,
            streams_keys=variant.streams_keys,
            p_in_memory=p_in_memory,
            writes_rows=may_write_rows(variant),
            swizzle_mode=dtype.default_swizzle if keeps_narrow else config.swizzle_mode,
        )
        refuse(unsupported_reason(config))
        schedule = _schedule_of(config)
        tuning = tuning_of(TUNED, "pair", dtype, head_dim, head_dim)
        return cls(config, variant, look_ahead=look_ahead, tuning=tuning, schedule=schedule)

    @property
    def may_copy_rows(self) -> bool:
        """Whether copies of few rows leave registers enough: not by stream-K under a mask of
        several terms."""
        return not (self.variant.streams_keys and len(self.variant.terms) > 1)

    def with_row_copies(self, row_copies: int) -> Depth512Spec:
        """Return the same kernel with as many copies of the rows of a CTA.

        Raises:
            ValueError: naming the limit, when no such kernel exists.
        """
        config = replace(self.config, row_copies=row_copies)
        refuse(unsupported_reason(config))
        return replace(self, config=config, schedule=_schedule_of(config))

    @property
    def name(self) -> str:
        """Entry name of the kernel, legal in PTX, that says what it is specialised on."""
        config = self.config
        parts = ["fa4_sm100_pair", config.qkv_dtype.value, f"d{config.depth}", f"g{config.group}"]
        parts += self.variant.name_parts
        parts += [] if self.look_ahead else ["in_turn"]
        parts += [f"x{config.row_copies}"] if config.row_copies > 1 else []
        return "_".join(parts)

    @property
    def score_loads(self) -> ScoreLoads:
        """When what changes the scores is loaded: half as much at a time where O has two blocks,
        terms have biases of their own and keys are split."""
        loads, variant = super().score_loads, self.variant
        scarce = self.config.split_o and variant.has_biases_of_terms and variant.is_split
        return replace(loads, under_way=loads.under_way // 2) if scarce else loads

    @property
    def may_stream_keys(self) -> bool:
        """Each CTA of a pair puts the parts of its own rows together."""
        return True

    @property
    def start_tiles(self) -> int:
        """Of head dim 512 key tiles are four times as large, and a start takes as long as one."""
        return 1 if self.config.split_o else super().start_tiles

    @property
    def output_depth(self) -> int:
        """Columns of O."""
        return self.config.depth

    @property
    def thread_columns(self) -> int:
        """Columns of S that a softmax thread has: of copies of rows those of their keys."""
        return self.config.s_columns // self.row_copies

    @property
    def exp2_plan(self) -> Exp2Plan:
        """Which exponentials of a thread's columns run as a polynomial."""
        columns = self.thread_columns
        if self.row_copies > 1:
            return Exp2Plan.of_copies(columns)
        return Exp2Plan(columns, num_emulated=self.tuning.num_emulated(columns // 2))

    @property
    def column_plan(self) -> ColumnPlan:
        """How a softmax thread reads its scores: all stay in registers."""
        return ColumnPlan(self.thread_columns, self.exp2_plan.num_batches)

    @property
    def tile_positions(self) -> int:
        """Sequence positions of one CTA."""
        return self.config.BM_eff()

    @property
    def key_rows(self) -> int:
        """Keys of one box of K or V: a CTA's keys of K, or the keys of one V slot."""
        return self.config.BK1

    @property
    def value_lag(self) -> int:
        """Steps by which P V of a tile follows its scores in issue order."""
        return 1 if self.look_ahead else 0

    def issue_order(self, num_key_tiles: int) -> Iterator[tuple[str, int]]:
        """Yield ("S", tile) and ("O", tile) in the order of the MMA and of the load role.

        Both roles run the same loop over ``num_key_tiles + value_lag`` steps.
        """
        for step in range(num_key_tiles + self.value_lag if num_key_tiles else 0):
            if step < num_key_tiles:
                yield "S", step
            if step >= self.value_lag:
                yield "O", step - self.value_lag


def _schedule_of(config: Depth512Config) -> WarpSchedule:
    """Return warps and registers: by stream-K the single warps need more.

    With fewer, biases that differ between terms spilled in them.
    """
    schedule = DEPTH512_STREAMED_SCHEDULE if config.streams_keys else DEPTH512_SCHEDULE
    apart = config.loads_values_apart
    return schedule.with_single_warps(asks=config.dynamic, loads_apart=apart)
