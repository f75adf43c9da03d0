"""Whether somebody watches a call, so that it has to be the operator that torch knows.

An eager call that nobody watches is computed at once: dispatching costs more than the rest of the
host's work.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.autograd import forward_ad
from torch.utils._device import DeviceContext

_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
# Bound once: looking these up takes longer than calling them.
is_traced = torch.compiler.is_dynamo_compiling
"""Whether ``torch.compile`` or a strict ``torch.export`` reads the code around the call."""
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transform = torch._C._functorch.peek_interpreter_stack
_is_autocast = torch._C._is_any_autocast_enabled
_is_profiled = torch._C._autograd._profiler_enabled


def is_observed(q: Any) -> bool:
    """Return whether a call with this ``q`` has to go through the operator.

    So it is while ``torch.compile`` or ``torch.export`` traces, under a mode (FakeTensorMode,
    ``make_fx``, FlopCounterMode, modes of ``__torch_function__``), a transform of ``torch.func``,
    forward-mode differentiation, autocast and the profiler, and for tensors without memory: those
    of the ``meta`` device, and subclasses. The default device is a mode too, but does not count.
    What is no tensor is not observed; the call refuses it.
    """
    return bool(
        is_traced()
        or _dispatch_modes()
        or _transform() is not None
        or _is_autocast()
        or _is_profiled()
        or forward_ad._current_level >= 0
        or (_function_modes() and _has_watching_mode())
        or (q.is_meta if type(q) in _PLAIN else isinstance(q, torch.Tensor))
    )


def _has_watching_mode() -> bool:
    """Return whether a mode of ``__torch_function__`` is more than the default device."""
    modes = (torch._C._get_function_stack_at(i) for i in range(_function_modes()))
    return any(not isinstance(mode, DeviceContext) for mode in modes)
