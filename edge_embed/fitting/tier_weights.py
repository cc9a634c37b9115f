"""Weights of rows in the plan of a tiered table.

    w_i = (count_i + 1/2)^p        p = 1/2 for rows, 1 for sums of rows, 3/4 for the largest logits of an output layer

p = 1/2 is the most robust over embeddings, recommenders and output layers. The largest logits are mostly those of
frequent rows, so a larger p keeps the first choice more often, and the divergence of all logits is larger. Bags add up
the errors e_i of their rows. If these are independent, the expected error of all sums has p = 1:

    E (sum over bags of |sum of e_i|^2) = sum_i count_i |e_i|^2
"""

from collections.abc import Mapping

from torch import Tensor

OBJECTIVES: Mapping[str, float] = {"rows": 1 / 2, "bags": 1, "logits": 3 / 4}
ROWS, BAGS, LOGITS = "rows", "bags", "logits"


def tier_weights(counts: Tensor, objective: str, padding_idx: int | None) -> Tensor:
    """Return the weight of each row, float64 [n]; that of the padding row is 0."""
    weights = (counts.double() + 0.5) ** OBJECTIVES[objective]
    if padding_idx is not None:
        weights[padding_idx] = 0
    return weights
