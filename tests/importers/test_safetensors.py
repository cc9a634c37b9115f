"""Tables of safetensors files, selected by their key."""

import pytest
import torch
from safetensors.torch import save_file

from edge_embed.errors import BadInputError
from edge_embed.importers.recognize import load_foreign
from edge_embed.packed import save_tables
from edge_embed.packed.dpq import PackedDPQ

TABLE = torch.arange(12.0).reshape(4, 3)


def load(path, tensors, tables=()):
    save_file(tensors, path / "m.safetensors")
    return load_foreign(path / "m.safetensors", tables)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("key", "name"), [("vectors", "vectors"), ("model.embed.weight", "model.embed")])
def test_single_table_is_read_unchanged(tmp_path, dtype, key, name):
    others = {"bias": torch.ones(3), "ids": torch.ones(2, 2, dtype=torch.int64), "conv": torch.ones(2, 2, 2)}
    program = load(tmp_path, {key: TABLE.to(dtype), **others})
    weight = program.module.weight(f"{name}.weight")
    assert weight.dtype == dtype
    torch.testing.assert_close(weight.float(), TABLE)
    assert program.vocabulary is None
    (rows,) = program.run(torch.tensor([[3, 0]]))
    torch.testing.assert_close(rows, TABLE.to(dtype)[[3, 0]][None])


def test_table_among_several_needs_module_name(tmp_path):
    tensors = {"words.weight": TABLE, "head.weight": torch.ones(2, 3)}
    with pytest.raises(
        BadInputError,
        match=r"got 2 tables, .* \(--module NAME of compress and bench\): head, words; for all .* --model",
    ):
        load(tmp_path, tensors)
    torch.testing.assert_close(load(tmp_path, tensors, ["words"]).module.weight("words.weight"), TABLE)
    for wrong in (["word"], ["words", "head"]):
        with pytest.raises(
            BadInputError, match=f"got {', '.join(wrong)}, expected the name of one table among head, words"
        ):
            load(tmp_path, tensors, wrong)


def test_table_is_mapped_from_file(tmp_path):
    program = load(tmp_path, {"vectors": TABLE})
    content = (tmp_path / "m.safetensors").read_bytes()
    with (tmp_path / "m.safetensors").open("r+b") as file:
        file.seek(len(content) - 4)
        file.write(b"\0\0\0\0")
    assert program.module.weight("vectors.weight")[3, 2] == 0


def test_row_that_is_not_finite_is_named(tmp_path):
    table = TABLE.clone()
    table[2, 1] = torch.inf
    with pytest.raises(BadInputError, match="vectors, row 2: got NaN, an infinity"):
        load(tmp_path, {"vectors": table})


def test_file_without_table_is_refused(tmp_path):
    with pytest.raises(
        BadInputError,
        match=r"got bias \(.*, expected a tensor of two dimensions in F16, BF16, F32",
    ):
        load(tmp_path, {"bias": torch.ones(3), "ids": torch.ones(2, 2, dtype=torch.int64)})


@pytest.mark.parametrize(("dtype", "shown"), [(torch.float8_e4m3fn, "F8_E4M3"), (torch.float64, "F64")])
def test_table_in_another_type_is_named_with_its_type(tmp_path, dtype, shown):
    with pytest.raises(
        BadInputError, match=rf"got words.weight \({shown} \[4, 3\]\), expected .*: save the table as float32"
    ):
        load(tmp_path, {"words.weight": TABLE.to(dtype)})


def test_packed_tables_are_refused_as_compressed(tmp_path):
    packed = PackedDPQ.from_codes(torch.zeros(4, 2, dtype=torch.int64).numpy(), torch.ones(2, 3, 2).numpy())
    save_tables(tmp_path / "t.safetensors", {"words": packed})
    with pytest.raises(BadInputError, match="contains packed tables, which are already compressed"):
        load_foreign(tmp_path / "t.safetensors")
