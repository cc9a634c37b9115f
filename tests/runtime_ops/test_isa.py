"""Every instruction set with kernels in the library gives the same results in ONNX Runtime."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.inspection.doctor import diagnose

SIZES = (300, 48)  # rows, columns
ISAS = diagnose().library.isas
TELL_ISA = """
import sys
from edge_embed.inspection.doctor import diagnose
print(diagnose().library.isa, file=sys.stderr)
"""


class EveryUse(nn.Module):
    """Rows, a bag and an output layer over a table of each method, in float32 and float16."""

    def __init__(self) -> None:
        super().__init__()
        self.dpq = edge_embed.DPQEmbedding(*SIZES, num_codes=16, num_groups=12, padding_idx=1)
        self.ant = edge_embed.ANTEmbedding(*SIZES, num_anchors=9)
        self.tt = edge_embed.TTEmbedding(*SIZES, rank=8)
        self.bags = nn.ModuleList(
            [
                edge_embed.DPQEmbeddingBag(*SIZES, num_codes=37, num_groups=8).freeze("float16"),
                edge_embed.ANTEmbeddingBag(*SIZES, num_anchors=9, mode="sum").freeze("int8"),
                edge_embed.TTEmbeddingBag(*SIZES, rank=4, mode="max"),
            ]
        )
        self.output_layers = nn.ModuleList(edge_embed.TiedOutput(layer) for layer in (self.dpq, self.ant, self.tt))

    def forward(self, ids: Tensor) -> Tensor:
        bags = sum(bag(ids) for bag in self.bags)
        rows = self.dpq(ids) + self.ant(ids) + self.tt(ids) + bags.unsqueeze(1)
        return torch.cat([layer(rows) for layer in self.output_layers], -1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("isa")
    torch.manual_seed(0)
    edge_embed.save(EveryUse().eval(), folder / "model.pt", torch.randint(0, SIZES[0], (2, 5)))
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx")
    return folder


def command(isa: str, *arguments: str, code: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command of edge-embed, with code before it in the same process."""
    run = f"{code}import sys; from edge_embed.cli import main; main()"
    environment = os.environ | {"EDGE_EMBED_FORCE_ISA": isa}
    return subprocess.run(
        [sys.executable, "-c", run, *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_validation_passes_with_each_instruction_set(isa: str, folder: Path) -> None:
    if not ISAS[isa]:
        pytest.skip(f"this processor has no {isa}: run the tests on one that has")
    files = [str(folder / "model.pt"), str(folder / "model.onnx")]
    done = command(isa, "validate", *files, "--iterations", "2", "--json", code=TELL_ISA)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.splitlines()[0] == isa
    paths = [path for table in json.loads(done.stdout)["tables"] for path in table["paths"]]
    assert {path["status"] for path in paths} == {"passed"}


@pytest.mark.slow
def test_unknown_instruction_set_is_refused() -> None:
    done = command("sse9", "doctor")
    assert done.returncode == 1
    assert "EDGE_EMBED_FORCE_ISA is sse9, expected one that the library contains" in done.stdout


@pytest.mark.parametrize("isa", ["bogus", "AVX2"])
def test_unknown_instruction_set_is_an_error_of_the_c_interface(isa: str) -> None:
    """A C app is told so by the first call with a table, of any contents."""
    code = """
import ctypes, edge_embed
library = ctypes.CDLL(str(edge_embed.get_library_path()))
library.ee_status_message.restype = ctypes.c_char_p
table = (ctypes.c_int32 * 256)(1, 1)
print(library.ee_status_message(library.ee_check(table)).decode())
"""

    def message(forced: str) -> str:
        environment = os.environ | {"EDGE_EMBED_FORCE_ISA": forced}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    said, names = message(isa).split(": ")
    assert said == "EDGE_EMBED_FORCE_ISA must name an instruction set of this library that the processor supports"
    assert names.replace(" or ", ", ").split(", ") == list(ISAS)
    assert message("reference").startswith("every size of a table must be at least 1")


def test_instruction_set_chosen_by_default_is_best() -> None:
    library = diagnose().library
    assert library.isa == next(name for name, runs in library.isas.items() if runs)
    assert list(library.isas)[-1] == "reference"
