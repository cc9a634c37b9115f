"""Settings: a method with all options that determine a table's size, and the settings that fit into some bytes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from edge_embed.errors import BadInputError, suggested
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import Weight
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.methods import Parts
from edge_embed.packed.floats import FLOAT_BYTES

_SHORT = {"num_codes": "K", "num_groups": "D", "num_anchors": "A", "rank": "R"}
_LARGEST_SHARE = 0.5  # maximum share of the bytes for codebooks or anchors: codes and weights of rows matter more

OnBlock = Callable[[int], None]
OnGroup = Callable[[int, int], None]
Types = Mapping[str, str]  # dtypes of stored numbers, by option name of ``freeze``


@dataclass(frozen=True)
class Setting:
    """One way to compress a table.

    Attributes:
        method: a name in `METHODS`.
        options: options of the method's ``fit`` beside the table: sizes such as ``num_codes`` or ``rank``.
        stored: dtypes of the stored numbers, as the layer's ``freeze`` accepts them.
    """

    method: str
    options: Mapping[str, Any]
    stored: Types = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = (f"{_SHORT.get(name, name)}={value}" for name, value in self.options.items())
        types = (f"{name.removesuffix('_type')}s {value}" for name, value in self.stored.items())
        return ", ".join((*sizes, *types))

    def fit(
        self,
        weight: Weight,
        padding_idx: int | None = None,
        counts: Tensor | None = None,
        trainable: bool = False,
        seed: int = 0,
        draft: bool = False,
        kept: Kept = NOTHING,
        on_group: OnGroup = lambda done, total: None,
        on_block: OnBlock = lambda rows: None,
        processes: Processes = ALONE,
        num_rows: int | None = None,
        directions: Tensor | None = None,
    ) -> Fitted:
        """Compress a table [n, d]: a frozen layer with stored numbers of these dtypes, or a trainable layer.

        A draft has a slightly higher error and takes less time. ``kept`` stores finished parts, if the method has any.
        ``on_group`` gets the numbers of finished and of all groups, if the method finds centroids of groups first.
        ``on_block`` gets the number of finished rows, if the method processes rows in order. ``processes`` share the
        work. ``num_rows`` is the number of rows of the table, if ``weight`` is a sample of them. ``directions`` are
        those that the next layer reads, [d, d] (`edge_embed.fitting.next_layer`).

        Raises:
            BadInputError: for an unknown method or option, or as the method's ``fit``.
        """
        check_method(self.method)
        method = METHODS[self.method]
        effort = method.draft if draft else {}
        given: dict[str, Any] = {"padding_idx": padding_idx, "counts": counts, "trainable": trainable, "seed": seed}
        given |= {"kept": kept, "on_block": on_block, "processes": processes}
        given |= {"on_group": on_group} if method.has_groups else {}
        given |= {"num_rows": num_rows} if method.of_sample else {}
        given |= {"directions": directions} if method.by_directions else {}
        made = method.fit(weight, **given, **self.options, **effort)
        fitted = made if isinstance(made, Fitted) else Fitted(made)
        return fitted if trainable else fitted.frozen(**self.stored)


@dataclass(frozen=True)
class FittingMethod:
    """Implementation of one method for fitting dense tables.

    Attributes:
        fit: function that returns a layer, or a layer and its rotation. It takes the weight and, by name, padding_idx,
            counts, trainable, seed, the options of a setting, kept, on_block and processes.
        sizes: names of the options of a setting.
        types: names of the options of ``freeze``.
        within: function of n, d, a number of bytes and the stored dtypes: yields the largest settings that fit.
        rotates: whether its rows are rotated.
        needs_all: whether a fit to some rows says nothing about the others.
        of_sample: whether ``fit`` takes the number of rows of the whole table, if it gets a sample of them.
        by_counts: whether ``fit`` takes the frequencies as they are.
        by_directions: whether ``fit`` takes the directions that the next layer reads.
        has_objective: whether ``fit`` takes the objective.
        has_groups: whether ``fit`` takes on_group.
        draft: options of ``fit`` for a slightly higher error in less time.
        is_slow: function of n, d and the options of a setting: whether a draft takes so long that ``auto`` skips it.
        not_beside: methods that another table of the same exported file must not have.
    """

    fit: Callable[..., CompressedEmbedding | Fitted]
    sizes: tuple[str, ...]
    types: tuple[str, ...]
    within: Callable[[int, int, int, Types], Iterator[Setting]]
    rotates: bool = False
    needs_all: bool = False
    of_sample: bool = False
    by_counts: bool = False
    by_directions: bool = False
    has_objective: bool = False
    has_groups: bool = False
    draft: Mapping[str, Any] = field(default_factory=dict)
    is_slow: Callable[[int, int, Mapping[str, Any]], bool] = lambda n, dim, options: False
    not_beside: tuple[str, ...] = ()


def check_method(method: str) -> None:
    """Raise `BadInputError` for an unknown method."""
    if method not in METHODS:
        hint = suggested(str(method), (*METHODS, "auto"))
        raise BadInputError(f"method: got {method!r:.80}, {hint}expected {', '.join(METHODS)} or auto")


def has_room(count: int, dim: int, nbytes: int, value_type: str) -> bool:
    """Return whether codebooks or anchors [count, d] leave enough of the bytes for the rows."""
    return FLOAT_BYTES[value_type] * count * dim <= _LARGEST_SHARE * nbytes


METHODS: Parts[FittingMethod] = Parts("fitting")


def rotating() -> list[str]:
    """Return the methods that rotate rows."""
    return [name for name, known in METHODS.items() if known.rotates]


def setting_of(method: str, options: Mapping[str, Any]) -> Setting:
    """Return the setting with these sizes and dtypes.

    Raises:
        BadInputError: if the method is unknown, or its options have other names.
    """
    check_method(method)
    known = METHODS[method]
    own = (*known.sizes, *known.types)
    if wrong := options.keys() - {*own}:
        got, expected = (", ".join(f"`{name}`" for name in names) for names in (sorted(wrong), own))
        raise BadInputError(f"{method}: got {got}, expected options among {expected}")
    if missing := [name for name in known.sizes if name not in options]:
        got = " and ".join(f"`{name}`" for name in missing)
        raise BadInputError(f"{method}: got no {got}; give it, or only `ratio`, `budget` or `min_cosine`")
    types = {name: options[name] for name in known.types if name in options}
    return Setting(method, {name: options[name] for name in known.sizes}, types)
