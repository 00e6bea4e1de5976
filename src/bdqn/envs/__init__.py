"""Environments: make them from ids, check them, and step N of them together.

May import: config.extras, config.observations, storage.state_files. Never: torch.
"""

from bdqn.envs.answers import BadAnswer, EnvironmentWarning
from bdqn.envs.atari import AtariEnv, make_atari
from bdqn.envs.catalog import UnknownEnvironment, find_spec, register_environments
from bdqn.envs.deep_sea import DeepSea
from bdqn.envs.episode_parts import EpisodeParts
from bdqn.envs.extras import MissingExtra
from bdqn.envs.gym_vector import make_atari_vector
from bdqn.envs.make import Family, NotAnEnvironment, Source, describe, family, family_of, has_time_limit, make_env
from bdqn.envs.minatar import MinAtar
from bdqn.envs.settings import PROTOCOLS, AtariProtocol, AtariSettings
from bdqn.envs.spaces import UnsupportedSpace, check_spaces, name_of
from bdqn.envs.state import CannotRestore, Restorable
from bdqn.envs.supervision import StepTimeout, Supervisor, blamed
from bdqn.envs.vector import TERMINAL_FOR_LEARNER, Environments

__all__ = [
    "PROTOCOLS",
    "TERMINAL_FOR_LEARNER",
    "AtariEnv",
    "AtariProtocol",
    "AtariSettings",
    "BadAnswer",
    "CannotRestore",
    "DeepSea",
    "EnvironmentWarning",
    "Environments",
    "EpisodeParts",
    "Family",
    "MinAtar",
    "MissingExtra",
    "NotAnEnvironment",
    "Restorable",
    "Source",
    "StepTimeout",
    "Supervisor",
    "UnknownEnvironment",
    "UnsupportedSpace",
    "blamed",
    "check_spaces",
    "describe",
    "family",
    "family_of",
    "find_spec",
    "has_time_limit",
    "make_atari",
    "make_atari_vector",
    "make_env",
    "name_of",
]

register_environments()
