"""Small networks are fastest on one thread, and tests share the machine."""

import torch

torch.set_num_threads(1)
