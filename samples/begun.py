"""What a run over several seeds has found so far, kept in a file, so that an interrupted one can go on."""

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
    """The choices and trials that are done.

    Attributes:
        sample: whose they are.
        quick: whether they are of a quick run.
        chosen: by method, which setting validation chose.
        costs: by method, time of training steps relative to those of ``dense``; empty before they are measured.
        trials: of the seeds that are done.
    """

    sample: str
    quick: bool
    chosen: dict[str, int] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def read(cls, file: Path, sample: str, quick: bool, candidates: Candidates) -> Self:
        """What is in a file of a run with these settings.

        Raises:
            click.ClickException: if there is none, or it is not of such a run.
        """
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            begun = cls(**found | {"trials": [Trial(**trial) for trial in found["trials"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise click.ClickException(f"--resume: {file} cannot be read: {error}; leave out --resume") from error
        settings = {(method, setting) for method, recipes in candidates.items() for setting in range(len(recipes))}
        is_such = (begun.sample, begun.quick) == (sample, quick) and begun.chosen.items() <= settings
        lacks_methods = begun.trials and begun.chosen.keys() != candidates.keys()  # a seed is done when all of them are
        if lacks_methods or not is_such:
            raise click.ClickException(f"--resume: {file} is of other settings; leave out --resume to begin anew")
        return begun

    def write(self, file: Path) -> None:
        """Replace the file."""
        with new_file(file, force=True) as temporary:
            temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n", encoding="utf-8")
