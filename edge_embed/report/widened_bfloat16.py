"""What an export computes in float32 that the model has in bfloat16."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_NAMED = 5


@dataclass(frozen=True)
class Widened:
    """What was in bfloat16 and is in float32 in the exported file.

    Attributes:
        weights: bytes in float32 by name.
        inputs: names of inputs.
        calls: operators that were told to give bfloat16, as under ``torch.autocast``.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    calls: int = 0

    def __bool__(self) -> bool:
        """Whether there was any."""
        return bool(self.weights or self.inputs or self.calls)

    def render(self) -> str:
        """A line for the terminal."""
        parts = []
        if self.weights:
            size = sum(self.weights.values())
            plural = "s" if len(self.weights) > 1 else ""
            parts.append(
                f"{len(self.weights)} weight{plural} ({_listed(self.weights)}; {size // 2:,} -> {size:,} bytes)"
            )
        if self.inputs:
            parts.append(f"input{'s' if len(self.inputs) > 1 else ''} {_listed(self.inputs)}")
        if self.calls:
            parts.append(f"{self.calls} conversion{'s' if self.calls > 1 else ''} of the model itself")
        return (
            f"bfloat16 became float32, as runtimes on a CPU have no kernels for it: {', '.join(parts)}. model.half() "
            "before it is saved keeps two bytes a number, where float16 has its range"
        )


def _listed(names: Mapping[str, int] | tuple[str, ...]) -> str:
    more = len(names) - _NAMED
    return ", ".join(list(names)[:_NAMED]) + (f" and {more} more" if more > 0 else "")
