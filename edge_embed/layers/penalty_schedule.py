"""`PenaltySchedule`: the penalty lambda_2 of ANT as a function of the training step, given by a few points.

{0: p}               constant
{0: 0, 1000: p}      linear warm-up in 1,000 steps
{500: 0, 1500: p}    the same after 500 steps without a penalty; the authors' code uses this one, counted in epochs
{999: 0, 1000: p}    a step
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.proximal import ProximalOptimizer, check_proximal, checked_penalty


@suggests_keywords
class PenaltySchedule:
    """Sets the penalty of a `ProximalOptimizer` by the number of steps, as a torch scheduler sets the learning rate.

    Call ``step()`` once after each step of the optimiser, or once after each epoch if the points count epochs. A slowly
    rising penalty is safer than a high one from the start: the table is trained before it becomes sparse.

    Args:
        optimizer: optimiser whose penalty is set, at once and after each step.
        points: penalty at some numbers of steps. The penalty is interpolated linearly between two points. It is
            constant before the first and after the last.

    Raises:
        BadInputError: if there is no point, a number of steps is below 0, a penalty is invalid, or ``optimizer`` is not
            a `ProximalOptimizer`.
    """

    def __init__(self, optimizer: ProximalOptimizer, points: Mapping[int, float]) -> None:
        check_proximal(optimizer)
        if not isinstance(points, Mapping) or not points:
            raise BadInputError(f"points must map numbers of steps to penalties, such as {{0: 1e-4}}, got {points!r}")
        for step in points:
            checked_count("a number of steps", step, least=0)
        self.optimizer = optimizer
        self.points = {step: checked_penalty(points[step]) for step in sorted(points)}
        self._steps = 0
        self._set()

    def step(self) -> None:
        """Count one step and set the penalty of the next."""
        self._steps += 1
        self._set()

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps. The points are given again to a new schedule."""
        return {"steps": self._steps}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the number of steps of a saved run; the points stay those of this schedule.

        Raises:
            BadInputError: if ``state_dict`` is not the state of a schedule.
        """
        if not isinstance(state_dict, Mapping) or "steps" not in state_dict:
            raise BadInputError(f"state_dict: got {state_dict!r:.80}, expected that of a PenaltySchedule, with 'steps'")
        checked_count("steps", state_dict["steps"], least=0)
        self._steps = state_dict["steps"]
        self._set()

    def _set(self) -> None:
        self.optimizer.penalty = float(np.interp(self._steps, list(self.points), list(self.points.values())))
