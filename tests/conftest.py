"""Small networks are fastest on one thread, and tests share the machine."""

import pytest
import torch
from threadpoolctl import threadpool_limits

pytest.register_assert_rewrite("support")
torch.set_num_threads(1)
threadpool_limits(1)
