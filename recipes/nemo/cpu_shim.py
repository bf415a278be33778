"""Runs NeMo's own command line on a CPU: `python cpu_shim.py llm pretrain --factory llama3_8b ...`.

NeMo and Megatron-Core ask torch.cuda for devices, streams and random states whatever the configuration
says. This module answers for torch.cuda and then hands its arguments to the unchanged `nemo` command in the
same process. It stands alone (it imports nothing of this project), so a copy of the file in a run folder
works: by itself, under torchrun and as a Slurm task.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable

# pyright: reportMissingImports=false
# (torch, megatron and nemo exist only where a smoke runs.)

ENVIRONMENT = {
    # torch.compile takes longer than the run itself, and there is no GPU to be compiled for.
    "TORCHDYNAMO_DISABLE": "1",
    # Several processes with a thread for each core would fight over the cores.
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
}


def _no_op() -> Callable[..., None]:
    """Returns a new function each time, since torch.compile takes offence at two names for one function."""
    return lambda *args, **kwargs: None


class _NoOp:
    """A CUDA stream or event on which nothing ever waits: everything on a CPU has already happened."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        del args, kwargs

    def __getattr__(self, name: str) -> Callable[..., _NoOp]:
        return lambda *args, **kwargs: self


def redirect_torch_cuda() -> contextlib.AbstractContextManager[object]:
    """Answers for torch.cuda with the CPU; tensors are redirected within the returned context."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils import cpp_extension

    def no_compiler(*args: object, **kwargs: object) -> None:
        raise OSError("nothing is compiled for CUDA here")

    # Megatron-Core would write and compile an allocator for CUDA when it is imported, and does without it.
    cpp_extension.load_inline = no_compiler
    cpu = torch.device("cpu")

    def is_cuda(value: object) -> bool:
        return isinstance(value, (str, torch.device)) and str(value).startswith("cuda")

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[override]
            if func is torch.Tensor.cuda:
                return args[0]
            args = tuple(cpu if is_cuda(arg) else arg for arg in args)
            kwargs = {name: cpu if is_cuda(value) else value for name, value in (kwargs or {}).items()}
            # Pinned memory is for copies to a GPU, and cannot be had without one.
            kwargs.pop("pin_memory", None)
            result = func(*args, **kwargs)
            if func is torch.Tensor.type and isinstance(result, str):
                # Megatron-Core's optimizer takes parameters of CUDA types only, by the name of the type.
                return result.replace("torch.", "torch.cuda.", 1)
            return result

    replacements: dict[str, object] = {
        "Stream": _NoOp,
        "Event": _NoOp,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda device=None: _NoOp(),
        "default_stream": lambda device=None: _NoOp(),
        "current_device": lambda: cpu,
        "get_rng_state": lambda device=None: torch.get_rng_state(),
    }
    for name in ("set_device", "set_rng_state", "manual_seed", "synchronize", "empty_cache"):
        replacements[name] = _no_op()
    for name, replacement in replacements.items():
        setattr(torch.cuda, name, replacement)
    torch.nn.Module.cuda = lambda self, device=None: self  # type: ignore[method-assign]
    return OnCpu()


def adapt_megatron_and_nemo() -> None:
    """Mends what in Megatron-Core and NeMo expects a GPU or TransformerEngine and has no setting."""
    import torch
    from megatron.core.tensor_parallel import random
    from megatron.core.timers import Timers
    from megatron.core.transformer.moe import moe_utils
    from nemo.collections.llm.gpt.data import mock

    gather_times = Timers._get_elapsed_time_all_ranks

    def gather_times_if_any(self, names, reset, barrier):
        # The first rank alone asks for the times of no timers to print them. NCCL lets an empty gather
        # pass; gloo would wait for the other ranks for ever.
        if not names:
            return torch.zeros(torch.distributed.get_world_size(), 0)
        return gather_times(self, names, reset, barrier)

    patches: list[tuple[object, str, Callable[..., object]]] = [
        # The random states of CUDA devices are what would be swapped, and there are none.
        (random, "_get_cuda_rng_state", lambda *args, **kwargs: torch.get_rng_state()),
        (random, "_set_cuda_rng_state", _no_op()),
        (random.CudaRNGStatesTracker, "add", _no_op()),
        (random.CudaRNGStatesTracker, "fork", lambda self, *args, **kwargs: contextlib.nullcontext()),
        (Timers, "_get_elapsed_time_all_ranks", gather_times_if_any),
    ]
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)
    # Without TransformerEngine this name holds a stand-in that the router would call.
    moe_utils.te_general_gemm = None
    # MockDataModule passes its choice of an attention mask in the place of `seed`, so the mask that
    # attention needs without TransformerEngine has to come from the default (seed, create_attention_mask).
    mock._MockGPTDataset.__init__.__defaults__ = (42, True)


def main(arguments: list[str]) -> None:
    """Runs `nemo` with `arguments` in this process; exits as `nemo` does."""
    os.environ.update(ENVIRONMENT)
    on_cpu = redirect_torch_cuda()
    adapt_megatron_and_nemo()
    # The nemo command reads its sub-command from sys.argv when it is imported.
    sys.argv = ["nemo", *arguments]
    from nemo_run.__main__ import app

    with on_cpu:
        app()


if __name__ == "__main__":
    main(sys.argv[1:])
