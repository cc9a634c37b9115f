"""Record of bfloat16 parts of a model that an export computes in float32."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Widened:
    """Parts that are bfloat16 in the model and float32 in the exported file.

    Attributes:
        weights: bytes in float32 by name.
        inputs: names of inputs.
        calls: number of operators with an explicit bfloat16 result, as under ``torch.autocast``.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    calls: int = 0

    def __bool__(self) -> bool:
        """Return whether there is any such part."""
        return bool(self.weights or self.inputs or self.calls)
