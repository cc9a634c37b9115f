"""Wrapped modules are captured without the wrapper: names of inputs, tables and dimensions are the user's own."""

import functools

import pytest
import torch
from torch import nn
from torch.export import Dim

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.program.load import capture_program

IDS = torch.tensor([[1, 2, 3]])
compiled = functools.partial(torch.compile, backend="eager")  # no compiler is needed


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(40, 8, 4, 2).freeze()

    def forward(self, ids: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        rows = self.words(ids)
        return rows if scale is None else rows * scale


class Passing(nn.Module):
    """A wrapper like those of training libraries, which passes its arguments on and changes the outputs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        return 2 * self.module(*args, **kwargs)


class Keywords(Net):
    def forward(self, **batch: torch.Tensor) -> torch.Tensor:
        return super().forward(batch["tokens"], batch["weights"])


class Positions(Net):
    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return super().forward(*values)


class Holder(nn.Module):
    """A model that compiles a part of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = compiled(Net())

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.encoder(tokens)


SCALE = torch.ones(1, 3, 8)


@pytest.mark.parametrize(
    ("wrap", "example", "names"),
    [
        (lambda: compiled(Net()), IDS, ["ids"]),
        (lambda: nn.DataParallel(Net()), (IDS, SCALE), ["ids", "scale"]),
        (
            lambda: compiled(nn.DataParallel(compiled(Net()))),
            {"ids": IDS},
            ["ids"],
        ),
        (lambda: Passing(Net()), (IDS, SCALE), ["ids", "scale"]),
        (lambda: Passing(compiled(Net())), {"scale": SCALE, "ids": IDS}, ["scale", "ids"]),
        (Keywords, {"tokens": IDS, "weights": SCALE}, ["tokens", "weights"]),
        (Positions, (IDS,), ["ids"]),  # as the one layer inside
        (Positions, (IDS, SCALE), ["input_0", "input_1"]),
        (Holder, IDS, ["tokens"]),
    ],
)
def test_capture_of_wrapped_module_names_inputs_of_inner_module(wrap, example, names):
    model = wrap()
    before = {id(module): dict(vars(module)) for module in model.modules()}
    program = capture_program(model, example)
    assert [declared.name for declared in program.inputs] == names
    assert all("_orig_mod" not in name and "module." not in name[7:] for name, _ in program.module.named_buffers())
    arguments = example if isinstance(example, tuple) else (example,)
    with torch.no_grad():
        wanted = model.eval()(**example) if isinstance(example, dict) else model.eval()(*arguments)
    torch.testing.assert_close(program.run(*program.example_inputs)[0], wanted, rtol=0, atol=0)
    for module in model.modules():  # the wrappers are where they were
        assert "forward" not in vars(module) or "forward" in before[id(module)]


def test_lowering_of_compiled_part_names_table_without_wrapper():
    assert list(edge_embed.lower(Holder(), IDS).tables) == ["encoder.words"]


def test_partial_forward_keeps_its_names():
    model = Net()
    model.forward = functools.partial(model.forward)
    assert [declared.name for declared in capture_program(model, IDS).inputs] == ["ids"]


@pytest.mark.parametrize("shapes", [{"ids": {1: Dim("words")}}, {"args": ({1: Dim("words")},)}])
def test_dynamic_shapes_of_passing_wrapper_apply_to_named_inputs(shapes):
    program = capture_program(Passing(Net()), IDS, shapes)
    assert program.inputs[0].shape == (1, "words")


def test_wrapper_in_training_mode_is_captured_in_eval_mode_and_restored():
    class Dropped(Positions):
        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(super().forward(*values), 0.5, self.training)

    model = compiled(Dropped()).train()
    capture_program(model, IDS)
    assert model.training


def test_distributed_module_is_unwrapped(tmp_path):
    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(40, 8), nn.Linear(8, 4)))
        program = capture_program(model, IDS)
    finally:
        torch.distributed.destroy_process_group()
    assert [declared.name for declared in program.inputs] == ["input"]
    assert {name for name, _ in program.module.named_buffers()} == {"0.weight", "1.weight", "1.bias"}


def test_sharded_module_is_refused_with_remedy():
    sharded = type("FullyShardedDataParallel", (nn.Module,), {"__module__": "torch.distributed.fsdp"})()
    with pytest.raises(BadInputError, match="full_state_dict=True"):
        capture_program(sharded, IDS)
