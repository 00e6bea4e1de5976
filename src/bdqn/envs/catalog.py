"""The ids that `make_env` accepts: those of Gymnasium and ale_py, and those registered here or when asked for."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from bdqn.envs import bsuite, minigrid
from bdqn.envs.extras import MissingExtra, import_extra

DEEP_SEA_SIZES = range(10, 51, 2)  # those of bsuite
TREE_SIZES = range(10, 251, 10)  # those of Janz et al. 2019
EXPLORATION: dict[str, tuple[str, dict[str, Any]]] = {  # class and what it is made with; size and seed can be set
    "Grid": ("Grid", {}),
    "GridCost": ("Grid", {"step_cost": 0.01}),
    "GridSlip": ("Grid", {"slip": 0.2}),
    "GridImage": ("Grid", {"size": 10, "image": True}),
    "DeceptiveGrid": ("Grid", {"size": 12, "near_reward": 0.1}),
    "KeyDoor": ("KeyDoor", {}),
    "KeyDoorImage": ("KeyDoor", {"width": 10, "height": 10, "image": True}),
    "NChain": ("NChain", {}),
    "NChain100": ("NChain", {"size": 100}),
    "BinaryTree": ("BinaryTree", {}),
    "RiverSwim": ("RiverSwim", {}),
    "Lock": ("Lock", {}),
    "SwingUp": ("SwingUp", {}),
    "Cliff": ("Cliff", {}),
}
MINATAR_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


class UnknownEnvironment(ValueError):
    """No environment is registered under this id."""


def register_environments() -> None:
    """Register our ids with Gymnasium. Nothing is imported before an environment is made."""
    gym.register("bdqn/DeepSea-v0", entry_point="bdqn.envs.deep_sea:DeepSea")
    for size in DEEP_SEA_SIZES:
        for name, stochastic in (("DeepSea", False), ("StochasticDeepSea", True)):
            kwargs = {"size": size, "stochastic": stochastic}
            gym.register(f"bdqn/{name}{size}-v0", entry_point="bdqn.envs.deep_sea:DeepSea", kwargs=kwargs)
    for name, (class_name, kwargs) in EXPLORATION.items():
        gym.register(f"bdqn/{name}-v0", entry_point=f"bdqn.envs.exploration:{class_name}", kwargs=kwargs)
    for size in TREE_SIZES:
        entry_point = "bdqn.envs.exploration:BinaryTree"
        gym.register(f"bdqn/BinaryTree{size}-v0", entry_point=entry_point, kwargs={"size": size})
    gym.register("bdqn/Flood-v0", entry_point="bdqn.envs.flood:make_flood")
    for name, env_id in minigrid.IDS.items():
        entry_point = "bdqn.envs.minigrid:make_minigrid"
        gym.register(f"bdqn/{name}-v0", entry_point=entry_point, kwargs={"env_id": env_id})
    for game in MINATAR_GAMES:
        for version, minimal_actions in ((0, False), (1, True)):
            env_id = f"MinAtar/{game.title().replace('_', '')}-v{version}"
            # MinAtar's own registration uses the same ids, but seeds games only in part.
            gym.registry.pop(env_id, None)
            gym.register(
                env_id,
                entry_point="bdqn.envs.minatar:MinAtar",
                kwargs={"game": game, "minimal_actions": minimal_actions},
            )


def find_spec(env_id: str) -> EnvSpec:
    """Look up an id; if it is unknown, suggest similar ones. "module:id" imports the module first, as in Gymnasium."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0]:  # the module exists, but one of its imports does not
                raise
            raise UnknownEnvironment(
                f"There is no module {error.name!r} for {env_id!r}: install it, or run python -m bdqn in its directory."
            ) from error
    if name not in gym.registry:
        try:
            import_extra("ale_py", "atari")  # registers its ids on import
        except MissingExtra:
            if re.search(r"^ALE/|NoFrameskip-v\d+$", name):
                raise
    if name not in gym.registry and name.startswith(("MiniGrid-", "BabyAI-")):
        import_extra("minigrid", "minigrid")
    if name not in gym.registry and name.startswith(bsuite.NAMESPACE):
        gym.registry.update({spec.id: spec for spec in bsuite.specs()})
    if name not in gym.registry:
        raise UnknownEnvironment(f"Unknown environment {env_id!r}{_suggest(name)}")
    return gym.registry[name]


def is_atari(spec: EnvSpec) -> bool:
    """Whether an id belongs to ale_py."""
    return isinstance(spec.entry_point, str) and spec.entry_point.startswith("ale_py")


def _suggest(name: str, count: int = 3, cutoff: float = 0.6) -> str:
    """Suggest ids similar to a mistyped one, which may lack the namespace or the version."""

    bare = re.sub(r"-v\d+$", "", name)

    def similarity(spec: EnvSpec) -> float:
        pairs = ((name, spec.id), (bare, spec.name))
        return max(SequenceMatcher(None, typed.lower(), known.lower()).ratio() for typed, known in pairs)

    newest: dict[tuple[str | None, str], EnvSpec] = {}
    for spec in gym.registry.values():
        key = (spec.namespace, spec.name)
        if key not in newest or (spec.version or 0) > (newest[key].version or 0):
            newest[key] = spec
    # Among equally similar ids the newest comes first, ALE/Pong-v5 before Pong-v4, then ids without namespace.
    scored = sorted(
        ((similarity(spec), spec.version or 0, spec.namespace is None, spec.id) for spec in newest.values()),
        reverse=True,
    )
    nearest = [env_id for score, *_, env_id in scored[:count] if score >= cutoff]
    return f"; did you mean {' or '.join(nearest)}?" if nearest else "."
