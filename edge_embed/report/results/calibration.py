"""Result of a calibration."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Calibration:
    """Distance of the compressed model from the dense one, before and after its tables were fitted to examples.

    Attributes:
        file: file of the examples.
        unit: ``tokens`` or ``cases``.
        count: number of examples.
        held_out: share of them that was only measured.
        steps: steps of the fit.
        measure: ``KL divergence`` or ``relative squared error`` of the outputs.
        before: distance on the examples that were held out, before the fit.
        after: the same after the fit.
        is_kept: whether the fitted tables are in the model; not if the distance did not fall.
    """

    file: str
    unit: str
    count: int
    held_out: float
    steps: int
    measure: str
    before: float
    after: float
    is_kept: bool
