"""bfloat16 where the processor can do it, found out in a process that may die of it.

A processor may list instructions that its system forbids (AMX in some virtual machines). torch then believes the list,
and its first bfloat16 product ends the process. So the operations are first tried in a child process. Where that dies,
oneDNN, which does torch's products, is held to an older instruction set that works.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from bdqn.config.settings import SettingError
from bdqn.networks import bfloat16_trial
from bdqn.networks.freed_memory import keep_freed_memory

ISA = "ONEDNN_MAX_CPU_ISA"  # oneDNN reads it once, at the process's first product
OLDER_ISAS = ("AVX512_CORE_FP16", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2")  # newest first
TRIAL = (sys.executable, "-P", bfloat16_trial.__file__)
PATIENCE = 60.0  # seconds for a trial


@dataclass(frozen=True)
class Trial:
    """How bfloat16 works on this processor."""

    isa: str | None  # the instruction set that oneDNN must be held to; None: it may choose
    slowdown: float  # time of a training step in bfloat16 over that in float32


def prepare_bfloat16(device: torch.device) -> None:
    """Make bfloat16 safe to use in this process, refuse it where that is too late, and warn where it is slow."""
    if device.type != "cpu":
        return
    trial = try_bfloat16()
    if trial.isa is not None and os.environ.get(ISA) != trial.isa:
        os.environ[ISA] = trial.isa
        if not _survives(_one_product):
            del os.environ[ISA]
            raise SettingError(
                "bfloat16 would end this process: torch uses instructions that this processor lists but its system "
                f"forbids, and has computed here already. Start Python with {ISA}={trial.isa}, or use float32."
            )
    if trial.slowdown > 1:
        warnings.warn(
            f"precision is bfloat16, but a training step of Atari's layers takes {trial.slowdown:.1f} times as long "
            "as in float32 on this processor: use float32.",
            stacklevel=2,
        )
    keep_freed_memory()  # each update makes copies of weights and gradients


@cache
def try_bfloat16() -> Trial:
    """Try its operations in child processes, with ever older instruction sets until one survives."""
    ends = []
    for isa in (None, *OLDER_ISAS):
        environment = os.environ if isa is None else {**os.environ, ISA: isa}
        try:
            child = subprocess.run(TRIAL, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            ends.append(f"took more than {PATIENCE:.0f} s")
            continue
        if child.returncode == 0:
            seconds = json.loads(child.stdout)
            return Trial(isa, seconds["bfloat16"] / seconds["float32"])
        ends.append(_end(child.returncode))
    raise SettingError(f"bfloat16 does not work on this processor (a trial {ends[0]}): use float32.")


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"


def _one_product() -> None:
    torch.set_num_threads(1)  # a fork has no other threads
    with torch.no_grad():
        bfloat16_trial.forward(bfloat16_trial.layers(), torch.zeros(1, 4, 84, 84))


def _survives(act: Callable[[], None]) -> bool:
    """Whether a copy of this very process, with all that it has computed so far, comes through this."""
    if not hasattr(os, "fork"):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python warns of forks beside threads: it may hang, see below
        child = os.fork()
    if child == 0:
        code = 1
        faulthandler.disable()  # its death is an answer, not an error
        try:
            act()
            code = 0
        finally:
            os._exit(code)  # nothing of the parent's is tidied up twice
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False
