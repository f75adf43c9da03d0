"""The profiler: where the time of a kernel goes on a chip.

`call` profiles what a call launches; `kernel_profile` has what is known of a launch: `uses` of
resources, `roles` and their waits, the critical `path` and its `handovers`, hot `spots` and
`occupancy`. `detail` is the run behind them. `text`, `comparison` and `views` show it.
"""

from .call import profile
from .comparison import Comparison, compare
from .kernel_profile import KernelProfile, profile_launch
from .text import profile_text

__all__ = ["Comparison", "KernelProfile", "compare", "profile", "profile_launch", "profile_text"]
