"""What a callback is told, and how several are told together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdqn.config.settings import SettingError

if TYPE_CHECKING:
    from bdqn.envs.interaction import Step
    from bdqn.learner import Learner
    from bdqn.runs.evaluation import Evaluation


class Callback:
    """Follows training. Override what you want to know of; where a method returns False, training stops there."""

    def on_start(self, learner: Learner, total_steps: int) -> None:
        """Training begins, and is to reach so many decisions in total."""

    def on_step(self, learner: Learner, step: Step) -> bool | None:
        """One decision was taken in each environment, and learned from. Keep it fast."""

    def on_metrics(self, learner: Learner, metrics: Mapping[str, float]) -> bool | None:
        """A row of metrics, those that are known by then."""

    def on_evaluation(self, learner: Learner, evaluation: Evaluation) -> bool | None:
        """An evaluation has ended."""

    def on_checkpoint(self, learner: Learner, folder: Path) -> None:
        """A checkpoint was written. Only `bdqn train` and `bdqn resume` write any."""

    def on_end(self, learner: Learner) -> None:
        """Training has ended, perhaps by an error."""


Function = Callable[["Learner", "Step"], bool | None]
Given = Callback | Function | Sequence[Callback | Function]  # what `learn` takes


class EachStep(Callback):
    """A function that is called at each step."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def on_step(self, learner: Learner, step: Step) -> bool | None:
        return self._function(learner, step)


class Callbacks:
    """Several as one. Each is told everything, even where another one has stopped the training."""

    def __init__(self, given: Given) -> None:
        several = given if isinstance(given, Sequence) else [given]
        self._all = [self._one(item) for item in several]
        self._steppers = [one for one in self._all if type(one).on_step is not Callback.on_step]

    @staticmethod
    def _one(given: Any) -> Callback:
        if isinstance(given, type):
            raise SettingError(f"A callback must be an instance, not the class {given.__name__}: {given.__name__}().")
        if isinstance(given, Callback):
            return given
        if callable(given):
            return EachStep(given)
        raise SettingError(f"A callback must be a bdqn.Callback or a function, not a {type(given).__name__}.")

    @contextmanager
    def told(self, learner: Learner, total_steps: int) -> Iterator[None]:
        """The block is the training: whoever heard of its start hears of its end."""
        with ExitStack() as ends:
            for one in self._all:
                one.on_start(learner, total_steps)
                ends.callback(one.on_end, learner)
            yield

    def step(self, learner: Learner, step: Step) -> bool:
        """Whether to go on."""
        return _all_go_on([one.on_step(learner, step) for one in self._steppers])

    def metrics(self, learner: Learner, metrics: Mapping[str, float]) -> bool:
        return _all_go_on([one.on_metrics(learner, metrics) for one in self._all])

    def evaluation(self, learner: Learner, evaluation: Evaluation) -> bool:
        return _all_go_on([one.on_evaluation(learner, evaluation) for one in self._all])


def _all_go_on(answers: list[bool | None]) -> bool:
    return all(answer is not False for answer in answers)
