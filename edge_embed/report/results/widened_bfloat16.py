"""What an export computes in float32 that the model has in bfloat16."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
