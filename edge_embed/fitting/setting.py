"""Settings: a method with all that says how small it makes a table, and which of them fit into some bytes."""

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
_LARGEST_SHARE = 0.5  # of the bytes, for what all rows have in common: codes and weights say more

OnBlock = Callable[[int], None]
Types = Mapping[str, str]  # of numbers to store, by the name of the option of ``freeze``


@dataclass(frozen=True)
class Setting:
    """One way to compress a table.

    Attributes:
        method: a name of `METHODS`.
        options: of the method's ``fit``, beside the table: sizes such as ``num_codes`` or ``rank``.
        stored: the types of the stored numbers, as ``freeze`` of the layer takes them.
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
        on_block: OnBlock = lambda rows: None,
        processes: Processes = ALONE,
    ) -> Fitted:
        """What this makes of a table [n, d]: frozen, its numbers stored as said, unless it is trainable.

        A draft is not quite as near to the table, and takes less time. ``kept`` has finished parts, where the method
        has any, ``on_block`` is told the finished rows, where it goes through them, and ``processes`` share the work.

        Raises:
            BadInputError: for a method or options that there are not, or as ``fit`` of the method.
        """
        check_method(self.method)
        method = METHODS[self.method]
        effort = method.draft if draft else {}
        given: dict[str, Any] = {"padding_idx": padding_idx, "counts": counts, "trainable": trainable, "seed": seed}
        given |= {"kept": kept, "on_block": on_block, "processes": processes}
        made = method.fit(weight, **given, **self.options, **effort)
        fitted = made if isinstance(made, Fitted) else Fitted(made)
        return fitted if trainable else fitted.frozen(**self.stored)


@dataclass(frozen=True)
class FittingMethod:
    """One method's part in fitting dense tables.

    Attributes:
        fit: the layer, or that and its rotation, from the weight and, by name, padding_idx, counts, trainable, seed,
            the options of a setting, kept, on_block and processes.
        sizes: names of those options.
        types: names of the options of ``freeze``.
        within: for n, d, a number of bytes and the types to store: the largest settings that take no more.
        learns: whether layers of it can be trained.
        rotates: whether rows of it are rotated.
        needs_all: whether a fit to some rows says nothing of the others.
        draft: options of ``fit`` for a table that is not quite as near, and takes less time.
        not_beside: methods that no other table of the same exported file can have.
    """

    fit: Callable[..., CompressedEmbedding | Fitted]
    sizes: tuple[str, ...]
    types: tuple[str, ...]
    within: Callable[[int, int, int, Types], Iterator[Setting]]
    learns: bool = True
    rotates: bool = False
    needs_all: bool = False
    draft: Mapping[str, Any] = field(default_factory=dict)
    not_beside: tuple[str, ...] = ()


def check_method(method: str) -> None:
    """Raise `BadInputError` for one that there is not."""
    if method not in METHODS:
        hint = suggested(str(method), (*METHODS, "auto"))
        raise BadInputError(f"method: got {method!r:.80}, {hint}expected {', '.join(METHODS)} or auto")


def check_learns(method: str, trainable: bool) -> None:
    """Raise `BadInputError` if layers of a method are to learn that cannot."""
    if trainable and not METHODS[method].learns:
        able = ", ".join(name for name, known in METHODS.items() if known.learns)
        raise BadInputError(f"method: got {method!r} for layers that learn, expected one of {able}")


def has_room(count: int, dim: int, nbytes: int, value_type: str) -> bool:
    """Whether codes or anchors [count, d] leave enough of the bytes for the rows."""
    return FLOAT_BYTES[value_type] * count * dim <= _LARGEST_SHARE * nbytes


METHODS: Parts[FittingMethod] = Parts("fitting")


def rotating() -> list[str]:
    """Methods that rotate rows."""
    return [name for name, known in METHODS.items() if known.rotates]


def setting_of(method: str, options: Mapping[str, Any]) -> Setting:
    """The setting with these sizes and types.

    Raises:
        BadInputError: if there is no such method, or its sizes and types have other names.
    """
    check_method(method)
    known = METHODS[method]
    own = (*known.sizes, *known.types)
    if wrong := options.keys() - {*own}:
        got, expected = (", ".join(f"`{name}`" for name in names) for names in (sorted(wrong), own))
        raise BadInputError(f"{method}: got {got}, expected options among {expected}")
    if missing := [name for name in known.sizes if name not in options]:
        got = " and ".join(f"`{name}`" for name in missing)
        raise BadInputError(f"{method}: got no {got}: give it, or `ratio`, `budget` or `min_cosine` alone")
    types = {name: options[name] for name in known.types if name in options}
    return Setting(method, {name: options[name] for name in known.sizes}, types)
