"""Small networks are fastest on one thread, and tests share the machine."""

import pytest
import torch

pytest.register_assert_rewrite("support")
torch.set_num_threads(1)
