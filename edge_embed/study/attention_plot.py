"""Plots of attention heads as SVG: alphas over training, histograms, a number for each layer, and attention maps.

They require matplotlib (an extra).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from edge_embed.errors import BadInputError
from edge_embed.files import StrPath
from edge_embed.study.attention import AlphaTrajectories, as_numbers
from edge_embed.study.plot import _figure, _write


def draw_alphas(trajectories: AlphaTrajectories, path: StrPath, *, force: bool = False) -> None:
    """Draw alphas over the steps: a panel for each layer, a line for each attention head.

    Args:
        trajectories: at least one recorded step.
        path: file to write.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    alphas = trajectories.alphas
    figure = _figure(len(alphas))
    for panel, (name, lines) in zip(figure.subplots(1, len(alphas), squeeze=False).flat, alphas.items(), strict=True):
        panel.plot(trajectories.steps, lines, marker=".")
        panel.set(title=name, xlabel="step", ylabel="alpha", ylim=(1, 2))
    _write(figure, path, force)


def draw_alpha_histograms(alphas: Mapping[str, ArrayLike], path: StrPath, *, force: bool = False) -> None:
    """Draw a histogram of the alphas from 1 to 2 for each layer.

    Args:
        alphas: numbers by title, as `learned_alphas` returns them, or of several layers together.
        path: file to write.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    figure = _figure(len(alphas))
    for panel, (name, each) in zip(figure.subplots(1, len(alphas), squeeze=False).flat, alphas.items(), strict=True):
        panel.hist(np.asarray(each).reshape(-1), bins=np.linspace(1, 2, 21).tolist())
        panel.set(title=name, xlabel="alpha", ylabel="attention heads", xlim=(1, 2))
    _write(figure, path, force)


def draw_layers(
    numbers: Mapping[str, Mapping[str, float]], path: StrPath, *, label: str = "density", force: bool = False
) -> None:
    """Draw a number of each layer, such as `density` or `diversity`, as a line for each model.

    Args:
        numbers: by model and layer: ``{"1.5-entmax": {"layer 0": 0.2, "layer 1": 0.1}}``; all models have the layers.
        path: file to write.
        label: meaning of the numbers.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, models have other layers than the first
            one, or ``path`` exists.
        OutputError: if ``path`` cannot be written.
    """
    layers = list(next(iter(numbers.values()), ()))
    for model, of_layers in numbers.items():
        if list(of_layers) != layers:
            raise BadInputError(f"{model}: got layers {list(of_layers)!r:.200}, expected {layers!r:.200}")
    figure = _figure(1 if layers else 0)
    panel = figure.subplots()
    for model, of_layers in numbers.items():
        panel.plot(layers, list(of_layers.values()), marker="o", label=model)
    panel.set(ylabel=label, ylim=(0, None))
    panel.tick_params("x", rotation=90)
    panel.legend(fontsize="small")
    _write(figure, path, force)


def draw_maps(
    attention: ArrayLike,
    path: StrPath,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    force: bool = False,
) -> None:
    """Draw the attention of one sequence: a map of each attention head, keys as columns; zeros are white.

    Args:
        attention: probabilities [H, T, S].
        path: file to write.
        queries: tokens of the rows.
        keys: tokens of the columns; those of the rows by default if T is S.
        force: whether to replace an existing file.

    Raises:
        BadInputError: if matplotlib is not installed, there is nothing to draw, the tokens do not fit, or ``path``
            exists.
        OutputError: if ``path`` cannot be written.
    """
    p = as_numbers(attention)
    if p.ndim != 3:
        raise BadInputError(f"attention: got shape {list(p.shape)}, expected [H, T, S] of one sequence")
    keys = queries if keys is None and p.shape[1] == p.shape[2] else keys
    for name, tokens, expected in (("queries", queries, p.shape[1]), ("keys", keys, p.shape[2])):
        if tokens is not None and len(tokens) != expected:
            raise BadInputError(f"{name}: got {len(tokens)} tokens, expected {expected}")
    figure = _figure(len(p))
    for head, panel in enumerate(figure.subplots(1, len(p), squeeze=False).flat):
        panel.imshow(np.ma.masked_equal(p[head], 0), interpolation="nearest", vmin=0, vmax=1)
        panel.set(title=f"attention head {head}")
        if keys is not None:
            panel.set_xticks(range(len(keys)), keys, rotation=90, parse_math=False)
        if queries is not None:
            panel.set_yticks(range(len(queries)), queries, parse_math=False)
    _write(figure, path, force)
