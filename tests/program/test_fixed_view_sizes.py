"""Views whose sizes torch infers: models with them accept empty sequences."""

import torch
from torch import Tensor, nn

from edge_embed.program.load import capture_program


class Heads(nn.Module):
    """States [batch, length, 8] in two views: one with a fixed number of parts, one with all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        states = self.linear(states)
        return states.view(*states.shape[:2], -1, 4).transpose(1, 2), states.view(-1, 8)


def test_views_with_inferred_sizes_accept_empty_sequence() -> None:
    heads, rows = capture_program(Heads(), torch.zeros(2, 3, 8)).run(torch.zeros(5, 0, 8))
    assert (heads.shape, rows.shape) == ((5, 2, 0, 4), (0, 8))


def test_inferred_size_that_varies_stays_dynamic() -> None:
    states = torch.randn(5, 7, 8)
    torch.manual_seed(0)
    module = Heads()
    heads, rows = capture_program(module, torch.zeros(2, 3, 8)).run(states)
    expected = module(states)
    torch.testing.assert_close((heads, rows), expected)
