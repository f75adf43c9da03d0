"""Ways through machine code that anchors alone would not tell apart."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sm100sim.timing.records import Action
from sm100sim.timing.sass.trace import Matcher
from testing.harness import SMEM
from tests.sim.timing.sass.test_trace import HERE, actions, followed

PARTS = (
    HERE
    + """
mov.u32 %r6, dyn; mov.u32 %r4, 0;
setp.ne.u32 %q2, %r2, 0; @%q2 bra READY; mbarrier.init.shared.b64 [%r6], 128;
READY: bar.sync 0;
L: .pragma "nounroll";
mul.wide.u32 %rd3, %r4, 512; add.u64 %rd4, %rd2, %rd3;
ld.global.f32 %f1, [%rd4];
ex2.approx.f32 %f1, %f1;
setp.ne.u32 %q3, %r4, 3; @%q3 bra PART;
mbarrier.arrive.shared.b64 _, [%r6];
PART: st.global.f32 [%rd4], %f1;
add.u32 %r4, %r4, 1; setp.eq.b32 %q1, %r4, 4; @%q1 bra DONE; bra.uni L;
DONE:"""
)
"""Four parts, the last of which arrives: the assembler makes a guarded arrival of the branch."""


def test_a_guarded_arrival_of_the_last_turn_ends_no_loop_before() -> None:
    numbers = np.zeros(4 * 128, np.float32)
    recorded, kernel, _ = followed(PARTS, numbers, shared=SMEM, smem=64, block=128)
    arrivals = [i for i in kernel.instructions if i.opcode == "SYNCS" and "ARRIVE" in i.modifiers]
    assert any(i.guarded for i in arrivals), "ptxas makes another thing of it"
    matcher = Matcher(kernel, recorded)
    launch = matcher.launch()
    assert not matcher.lost
    for trace in launch.traces:
        for stream in trace.streams:
            found = Counter(kernel.instructions[k].opcode for k in stream.order.tolist())
            assert (found["MUFU"], found["STG"], found["LDG"]) == (4, 4, 4)
            assert actions(launch, stream).count(Action.MBARRIER_ARRIVE) == 1
