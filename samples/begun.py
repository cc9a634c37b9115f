"""State of a run over several seeds, stored in a file so that an interrupted run can resume."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import click
from candidates import Candidates
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
        trials: finished trials; a seed may lack some methods.
    """

    sample: str
    quick: bool
    chosen: dict[str, int] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path, sample: str, quick: bool, candidates: Candidates) -> Self:
        """Read the state from a file of a run with these settings.

        Raises:
            click.ClickException: if there is no such file, or it is from another run.
        """
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            begun = cls(**found | {"trials": [Trial(**trial) for trial in found["trials"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise click.ClickException(f"--resume: {file} cannot be read: {error}; leave out --resume") from error
        settings = {(method, setting) for method, recipes in candidates.items() for setting in range(len(recipes))}
        is_such = (begun.sample, begun.quick) == (sample, quick) and begun.chosen.items() <= settings
        if not is_such:
            raise click.ClickException(f"--resume: {file} has other settings; leave out --resume to start again")
        return begun

    def write(self, file: Path) -> None:
        """Replace the file."""
        with new_file(file, force=True) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")
