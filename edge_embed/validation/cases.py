"""The inputs of the whole model that a validation uses: drawn or read, and saved on request."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from edge_embed.errors import BadInputError
from edge_embed.files import check_target
from edge_embed.program.program import Program, Sizes, spelled_sizes
from edge_embed.report.results.validation import PathResult
from edge_embed.validation.model_inputs import ModelCase, make_cases
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.saved_inputs import load_inputs, save_inputs


def choose_cases(
    program: Program, random: np.random.Generator, options: ValidationOptions, fixed: Sequence[Sizes] = ()
) -> tuple[list[ModelCase], list[str]]:
    """Return inputs of the whole model and the names of those left out, after the inputs are saved.

    Some models end the process, so the inputs are saved at once.

    Args:
        program: the training form.
        random: source of sizes and values.
        options: options of the validation.
        fixed: the only sizes that the dynamic dimensions may have; by default any.

    Raises:
        BadInputError: the program does not run on its own example inputs, or a file of inputs does not fit it or the
            exported file.
        OutputError: the inputs cannot be saved.
    """
    left_out = list[str]()
    if options.save_worst is not None:
        check_target(options.save_worst, options.force)
    if options.inputs is not None:
        cases = load_inputs(options.inputs, program)
        _check_sizes(program, cases, fixed)
    else:
        cases, left_out = make_cases(program, random, options.more_cases, fixed)
    if not cases:
        raise BadInputError(f"the model fails on its own example inputs: {'; '.join(left_out)}")
    _save(options.save_inputs, program, cases, options)
    return cases, left_out


def _check_sizes(program: Program, cases: Sequence[ModelCase], fixed: Sequence[Sizes]) -> None:
    for case in cases:
        got = program.dynamic_sizes(case.inputs)
        if fixed and got not in fixed:
            expected = " or ".join(map(spelled_sizes, fixed))
            raise BadInputError(
                f"{case.name}: got inputs of {spelled_sizes(got)}, expected the sizes of a signature, {expected}: "
                "choose such inputs, or export with these sizes too"
            )


def save_worst(
    program: Program, cases: Sequence[ModelCase], found: Iterable[PathResult], options: ValidationOptions
) -> None:
    """Save the cases with the largest deviation of an output, if requested."""
    names = {output.worst_case for path in found for output in path.outputs}
    _save(options.save_worst, program, [case for case in cases if case.name in names], options)


def _save(path: Path | None, program: Program, cases: list[ModelCase], options: ValidationOptions) -> None:
    if path is not None:
        save_inputs(path, program, cases, options.seed, force=options.force)
