"""Outputs that are ids of the highest logits: they are compared by the logits of their rows.

Paths sum in different orders, so rows whose logits are nearly equal may swap places. Two paths may have different ids
at one place, if both rows have nearly the same logit in the training form.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from edge_embed.lowering.graph import CALLS
from edge_embed.program.operators import GET_ITEM
from edge_embed.program.program import Program, ProgramInterpreter

Score = Callable[[NDArray[Any]], NDArray[Any]]
_IDS = 1  # index in the results of the operator


def scores_of_ids(program: Program, inputs: tuple[Tensor, ...]) -> Mapping[int, Score]:
    """Return a function for each output with ids of a top-k: ids int64 [*, k] -> their logits, float64 [*, k].

    Args:
        program: the training form.
        inputs: inputs of the run that computed the ids.
    """
    calls = {index: call for index, output in enumerate(_outputs(program)) if (call := _call_of(output))}
    if not calls:
        return {}
    recorder = _Recorder(program, set(calls.values()))
    recorder.run(*inputs)
    return {index: recorder.scores[call] for index, call in calls.items()}


class _Recorder(ProgramInterpreter):
    """Runs a program and keeps the arguments of some calls, as a score function of ids."""

    def __init__(self, program: Program, calls: set[fx.Node]) -> None:
        super().__init__(program.module)
        self._calls, self.scores = calls, dict[fx.Node, Score]()

    @torch.no_grad()
    def run_node(self, n: fx.Node) -> Any:
        """Run one node of the graph."""
        if n in self._calls:
            arguments, _ = self.fetch_args_kwargs_from_env(n)
            self.scores[n] = _score(n, *arguments)
        return super().run_node(n)


def _score(call: fx.Node, hidden: Tensor, bias: Tensor | None, _: int, *table: Any) -> Score:
    rows = CALLS[call.target].form.plain["rows"]

    @torch.no_grad()
    def score(ids: NDArray[Any]) -> NDArray[Any]:
        chosen = torch.from_numpy(ids)  # [*, k]
        products = rows(chosen, *table).double() @ hidden.double().unsqueeze(-1)  # [*, k, 1]
        offsets = 0 if bias is None else bias[chosen].double()
        result: NDArray[Any] = (products.squeeze(-1) + offsets).numpy()
        return result

    return score


def _outputs(program: Program) -> tuple[Any, ...]:
    (output,) = (node for node in program.module.graph.nodes if node.op == "output")
    return tuple(output.args[0])


def _call_of(output: Any) -> fx.Node | None:
    """Return the call whose ids an output holds, or None."""
    if not isinstance(output, fx.Node) or output.target is not GET_ITEM or output.args[1] != _IDS:
        return None
    call: Any = output.args[0]
    return call if call.target in CALLS and CALLS[call.target].use == "topk" else None
