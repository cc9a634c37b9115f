"""Files of torch.save and folders without weights of a model: the error names their content."""

import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.load import load_program
from edge_embed.program.state_dict import load_into


def optimizer_state(kind: type[torch.optim.Optimizer] = torch.optim.Adam) -> dict[str, object]:
    layer = nn.Linear(2, 2)
    optimizer = kind(layer.parameters(), 0.1)
    layer(torch.ones(2)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


CONTENTS = {
    "contains the state of an optimizer, and no weights of a model": [
        optimizer_state(),
        {"optimizer": optimizer_state(torch.optim.Adagrad), "epoch": 3, "rng": torch.get_rng_state()},
        {"optimizer_states": [optimizer_state()], "state_dict": {}},
    ],
    "contains no tensors, but a .*, expected a state_dict": [
        {"epoch": 1},
        [1, 2],
        {},
        {"param_groups": [], "state": {}},
    ],
    r"no supported tensors, but w \(torch.float8_e5m2\): .*float32": [{"w": torch.ones(3, 2).to(torch.float8_e5m2)}],
    r"no supported tensors, but m.w \(on the meta device, without "
    r"numbers\)": [{"m": {"w": torch.ones(3, 2, device="meta")}}],
    r"contains one tensor, torch.float32 \[30, 8\], .*numpy.save": [torch.ones(30, 8)],
    r"contains one tensor, torch.uint8 \[5056\], .*torch.save\(model.state_dict\(\)": [torch.get_rng_state()],
    "a part of the optimizer state of DeepSpeed: .*zero_to_fp32.py": [
        {"optimizer_state_dict": {"zero_stage": 2, "flat": [torch.ones(3)]}, "ds_version": "0.14"}
    ],
}
CASES = [(message, content) for message, contents in CONTENTS.items() for content in contents]


@pytest.mark.parametrize(("message", "content"), CASES)
def test_file_without_weights_names_its_content(tmp_path, message, content):
    path = tmp_path / "c.pt"
    torch.save(content, path)
    for refused in (lambda: load_into(lambda: nn.Linear(2, 2), path), lambda: load_program(path)):
        with pytest.raises(BadInputError, match=message):
            refused()
    (note,) = inspect_file(path).notes
    assert note.startswith("it contains ")
    assert "weights alone" not in note


def test_weights_beside_optimizer_state_are_recognised(tmp_path):
    torch.save({"model": nn.Linear(2, 2).state_dict(), "optimizer": optimizer_state()}, tmp_path / "c.pt")
    load_into(lambda: nn.Linear(2, 2), tmp_path / "c.pt")
    with pytest.raises(BadInputError, match="contains weights without a model"):
        load_program(tmp_path / "c.pt")


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "pytorch_model-00001-of-00002.bin"])
def test_part_of_model_is_named_as_part(tmp_path, name):
    torch.save({"weight": torch.ones(2, 2)}, tmp_path / name)
    with pytest.raises(BadInputError, match="Missing keys: bias; by its name, the file is one of several parts"):
        load_into(lambda: nn.Linear(2, 2), tmp_path / name)
    with pytest.raises(BadInputError, match="is a folder with parts of one model, but without their index"):
        load_program(tmp_path)
