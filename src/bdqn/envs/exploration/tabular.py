"""Problems of few states and known dynamics: what is best, and what chance collects, can be computed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

State: TypeAlias = tuple[int, ...]


class Outcome(NamedTuple):
    """What a move may lead to."""

    state: State
    reward: float = 0.0
    ends: bool = False
    probability: float = 1.0


class Tabular(gym.Env[Any, Any]):
    """Episodes start in one state and are truncated after ``limit`` decisions.

    An action is a number, a move is what it means: ``mapping_seed`` shuffles them once (-1: not at all).
    """

    def __init__(self, start: State, moves: int, limit: int, mapping_seed: int) -> None:
        if limit < 1:
            raise ValueError(f"limit must be positive, not {limit}.")
        self.limit = limit
        order = np.arange(moves)
        self.move_of = order if mapping_seed < 0 else np.random.default_rng(mapping_seed).permutation(order)
        self.action_space = gym.spaces.Discrete(moves)
        self._start = self._state = start
        self._elapsed = 0

    @abstractmethod
    def outcomes(self, state: State, move: int) -> Sequence[Outcome]:
        """All that a move may lead to; probabilities add up to one."""

    @abstractmethod
    def observe(self, state: State) -> Any:
        """What is seen of a state."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Go back to the start."""
        super().reset(seed=seed)
        self._state, self._elapsed = self._start, 0
        return self.observe(self._state), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make the move that an action means."""
        outcome = self._drawn(self.outcomes(self._state, int(self.move_of[action])))
        self._state = outcome.state
        self._elapsed += 1
        truncated = not outcome.ends and self._elapsed >= self.limit
        return self.observe(self._state), outcome.reward, outcome.ends, truncated, {}

    def _drawn(self, outcomes: Sequence[Outcome]) -> Outcome:
        if len(outcomes) == 1:
            return outcomes[0]
        left = self.np_random.random()
        for outcome in outcomes:
            left -= outcome.probability
            if left < 0:
                return outcome
        return outcomes[-1]  # rounding

    def get_env_state(self) -> dict[str, Any]:
        """Give where in the episode it stands."""
        return {"state": list(self._state), "elapsed": self._elapsed}

    def set_env_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `get_env_state` gave."""
        self._state, self._elapsed = tuple(state["state"]), state["elapsed"]

    @property
    def optimal_return(self) -> float:
        """Mean return of the best policy, by dynamic programming; not discounted."""
        return self._returns[0]

    @property
    def random_return(self) -> float:
        """Mean return of uniformly random actions."""
        return self._returns[1]

    @cached_property
    def _returns(self) -> tuple[float, float]:
        states, model = self._model()
        best, chance = np.zeros(len(states)), np.zeros(len(states))
        for _ in range(self.limit):
            best = np.stack([reward + transition @ best for transition, reward in model]).max(0)
            chance = np.stack([reward + transition @ chance for transition, reward in model]).mean(0)
        return float(best[0]), float(chance[0])

    def _model(self) -> tuple[list[State], list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
        """Every state within reach, the start first; and for each move, transition matrix and mean reward."""
        number, states = {self._start: 0}, [self._start]
        found: list[list[Sequence[Outcome]]] = []
        moves = range(len(self.move_of))
        while len(found) < len(states):
            found.append([self.outcomes(states[len(found)], move) for move in moves])
            for outcome in (o for outcomes in found[-1] for o in outcomes):
                if not outcome.ends and outcome.state not in number:
                    number[outcome.state] = len(states)
                    states.append(outcome.state)
        model = []
        for move in moves:
            transition, reward = np.zeros((len(states), len(states))), np.zeros(len(states))
            for row, outcomes in enumerate(found):
                for outcome in outcomes[move]:
                    reward[row] += outcome.probability * outcome.reward
                    if not outcome.ends:
                        transition[row, number[outcome.state]] += outcome.probability
            model.append((transition, reward))
        return states, model
