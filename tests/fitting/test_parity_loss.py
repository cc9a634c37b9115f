"""A setting that turns all rows into zero is refused, because the compressed model would still run."""

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import ParityError

# Numbers below the smallest of float16: everything that is stored becomes zero.
TINY = torch.full((300, 8), 1e-18)
SETTINGS = {
    "dpq": {"num_codes": 4, "num_groups": 2, "value_type": "float16"},
    "low_rank": {"rank": 2, "value_type": "float16"},
}


class Words(nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(weight)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids)


@pytest.mark.parametrize("method", SETTINGS)
def test_compress_whose_rows_all_become_zero_is_refused(method: str) -> None:
    with pytest.raises(ParityError, match=f"{method} .*: all rows become zero: use larger sizes"):
        edge_embed.compress(Words(TINY), method, **SETTINGS[method])


def test_compress_of_zero_table_warns_without_refusal(caplog: pytest.LogCaptureFixture) -> None:
    _, report = edge_embed.compress(Words(torch.zeros(300, 8)), "dpq", num_codes=4, num_groups=2)
    assert report.tables[0].is_zero
    assert "all rows are zero" in caplog.text


def test_compress_command_ends_with_3_and_writes_nothing(tmp_path) -> None:
    edge_embed.save(Words(TINY), tmp_path / "m.pt", torch.tensor([[1, 2]]))
    arguments = ["compress", str(tmp_path / "m.pt"), "-o", str(tmp_path / "s.pt"), "--method", "low_rank"]
    done = CliRunner().invoke(main, [*arguments, "--rank", "2", "--value-type", "float16"])
    assert done.exit_code == 3, done.output
    assert "all rows become zero: use larger sizes" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt"]
