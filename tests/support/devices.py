"""Where networks can compute: on the host, and on a GPU where there is one."""

from __future__ import annotations

import pytest
import torch

no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device here")

on_each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=no_gpu)])
