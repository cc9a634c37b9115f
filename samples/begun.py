"""State of a run over several seeds, stored in a file so that an interrupted run can resume."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import click
import torch
from candidates import Candidates
from training import Task
from trials import Trial

from edge_embed.files import new_file


@dataclass
class Begun:
    """Finished choices and trials.

    Attributes:
        sample: name of the sample.
        quick: whether they are from a quick run.
        chosen: setting that validation chose, by method.
        costs: time of training steps relative to ``dense``, by method; empty before they are measured.
        memory: bytes of a training step, by method; empty before they are counted.
        data: fingerprint of the data; empty in the file of an earlier version.
        trials: finished trials; a seed may lack some methods.
    """

    sample: str
    quick: bool
    chosen: dict[str, int] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    data: str = ""

    @classmethod
    def read(cls, file: Path, expected: "Begun", candidates: Candidates, remedy: str) -> Self:
        """Read the state from a file of a run with these settings.

        Args:
            file: the file.
            expected: the state of a new run.
            candidates: settings by method.
            remedy: what to do about another file.

        Raises:
            click.ClickException: if there is no such file, or it is from another run.
        """
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            begun = cls(**found | {"trials": [Trial(**trial) for trial in found["trials"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise click.ClickException(
                f"{file}: got no state of a run, expected that of an earlier one: {remedy}"
            ) from error
        settings = {(method, setting) for method, recipes in candidates.items() for setting in range(len(recipes))}
        is_such = (begun.sample, begun.quick) == (expected.sample, expected.quick)
        if not is_such or begun.data not in ("", expected.data) or not begun.chosen.items() <= settings:
            raise click.ClickException(f"{file}: got other settings or data, expected those of this run: {remedy}")
        begun.data = expected.data
        return begun

    def write(self, file: Path) -> None:
        """Replace the file."""
        with new_file(file, force=True) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")


def fingerprint(make_task: Callable[[], Task[Any]]) -> str:
    """Return a number of the data of a task, as it differs between data sets: that of the first batch of seed 0."""
    torch.manual_seed(0)
    first = next(iter(make_task().batches()))
    return sha256(b"".join(column.numpy().tobytes() for column in first)).hexdigest()
