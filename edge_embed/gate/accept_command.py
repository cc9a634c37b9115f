"""Command that makes a new state the baseline."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edge_embed.files import as_argument
from edge_embed.gate.budget import Budget


def accept_command(
    model: Any, exported: Path, budget: Budget, baseline: Path | None, load_options: Sequence[str]
) -> str:
    """Return the command to type, with the files that the budget does not name.

    Args:
        model: path of a saved model; for any other model the result is a call in Python instead of a command.
        exported: the exported file.
        budget: budget of the check.
        baseline: the baseline to replace; None gives an empty text.
        load_options: further options that the command requires to load the model.
    """
    if baseline is None:
        return ""
    if not isinstance(model, str | Path):
        return "edge_embed.check(..., accept=True)"
    files = (
        [] if (budget.model, budget.exported) == (Path(model), exported) else list(map(as_argument, (model, exported)))
    )
    options = [] if budget.path is None else ["--budget", str(budget.path)]
    options += [] if baseline == budget.baseline else ["--baseline", str(baseline)]
    return shlex.join(["edge-embed", "check", *files, *options, *load_options, "--accept"])
