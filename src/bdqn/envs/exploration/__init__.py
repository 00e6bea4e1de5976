"""Problems that reward only those who explore, of settable size, with their optimum and a random policy's return."""

from bdqn.envs.exploration.binary_tree import BinaryTree
from bdqn.envs.exploration.cliff import Cliff
from bdqn.envs.exploration.grid import Grid
from bdqn.envs.exploration.key_door import KeyDoor
from bdqn.envs.exploration.lock import Lock
from bdqn.envs.exploration.n_chain import NChain
from bdqn.envs.exploration.river_swim import RiverSwim
from bdqn.envs.exploration.swing_up import SwingUp
from bdqn.envs.exploration.tabular import Tabular

__all__ = ["BinaryTree", "Cliff", "Grid", "KeyDoor", "Lock", "NChain", "RiverSwim", "SwingUp", "Tabular"]
