"""Environments: making them from ids, and stepping N of them together. Independent of agents and of torch."""

from bdqn.envs.atari import AtariEnv, make_atari
from bdqn.envs.catalog import UnknownEnvironment, find_spec, register_environments
from bdqn.envs.deep_sea import DeepSea
from bdqn.envs.extras import MissingExtra
from bdqn.envs.make import Family, Source, describe, family, make_env
from bdqn.envs.minatar import MinAtar
from bdqn.envs.settings import PROTOCOLS, AtariProtocol, AtariSettings
from bdqn.envs.spaces import UnsupportedSpace, check_spaces
from bdqn.envs.state import CannotRestore, Restorable
from bdqn.envs.vector import TERMINAL_FOR_LEARNER, Environments

__all__ = [
    "PROTOCOLS",
    "TERMINAL_FOR_LEARNER",
    "AtariEnv",
    "AtariProtocol",
    "AtariSettings",
    "CannotRestore",
    "DeepSea",
    "Environments",
    "Family",
    "MinAtar",
    "MissingExtra",
    "Restorable",
    "Source",
    "UnknownEnvironment",
    "UnsupportedSpace",
    "check_spaces",
    "describe",
    "family",
    "find_spec",
    "make_atari",
    "make_env",
]

register_environments()
