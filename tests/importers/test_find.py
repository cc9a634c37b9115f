"""Files of vectors as models: recognition, the route to an exported file, and damage of every kind."""

import json
import random
import struct

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

import edge_embed
from edge_embed import cli, workflow
from edge_embed.errors import BadInputError
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.inspect import inspect_file

ROWS, COLUMNS = 400, 16


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write the same vectors in every format; return folder, tokens and table."""
    folder = tmp_path_factory.mktemp("files")
    draw = np.random.default_rng(0)
    table = (
        draw.normal(size=(9, COLUMNS))[draw.integers(9, size=ROWS)] + draw.normal(size=(ROWS, COLUMNS)) / 9
    ).astype("<f4")
    tokens = [f"wörd{row}" for row in range(ROWS)]
    lines = [f"{token} {' '.join(map(repr, row.tolist()))}" for token, row in zip(tokens, table, strict=True)]
    (folder / "glove.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "text.vec").write_text("\n".join([f"{ROWS} {COLUMNS}", *lines]), encoding="utf-8")
    records = (token.encode() + b" " + row.tobytes() for token, row in zip(tokens, table, strict=True))
    (folder / "binary.bin").write_bytes(b"%d %d\n" % table.shape + b"".join(records))
    (folder / "fasttext.bin").write_bytes(_fasttext(tokens, table))
    save_file({"vectors": torch.from_numpy(table)}, folder / "table.safetensors")
    return folder, tokens, table


def _fasttext(tokens, table):
    """Return a fastText model without n-grams."""
    header = struct.pack("<2i12id", 793712314, 12, COLUMNS, 5, 5, 1, 5, 1, 2, 2, 0, 0, 0, 100, 1e-4)
    entries = b"".join(token.encode() + b"\0" + struct.pack("<qb", 1, 0) for token in tokens)
    counts, matrix = struct.pack("<3i2q", ROWS, ROWS, 0, ROWS, -1), struct.pack("<b2q", 0, *table.shape)
    return header + counts + entries + matrix + table.tobytes()


NAMES = ["glove.txt", "text.vec", "binary.bin", "fasttext.bin", "table.safetensors"]


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_compressed_and_exported(files, tmp_path, name):
    folder, tokens, table = files
    small, device = tmp_path / "small.pt", tmp_path / "small.onnx"
    _, report = edge_embed.compress(folder / name, "dpq", num_codes=16, num_groups=8, output=small)
    (compressed,) = report.tables
    assert (compressed.name, compressed.num_embeddings) == ("vectors", ROWS)
    edge_embed.export(small, "onnx", device)
    session = onnxruntime.InferenceSession(device)
    (rows,) = session.run(["vectors"], {"ids": np.arange(ROWS)[None]})
    cosines = (rows[0] * table).sum(1) / np.linalg.norm(rows[0], axis=1) / np.linalg.norm(table, axis=1)
    assert cosines.mean() > 0.9
    stored = {entry.key: entry.value for entry in onnx.load(device).metadata_props}
    if name == "table.safetensors":
        assert "edge_embed.vocabulary" not in stored
    else:
        assert json.loads(stored["edge_embed.vocabulary"]) == tokens


@pytest.mark.parametrize("name", NAMES)
def test_program_of_vectors_equals_captured_embedding(files, name):
    folder, _, table = files
    ids = torch.tensor([[3, 1], [399, 0]])
    program = workflow.load(folder / name)
    captured = workflow.load(torch.nn.Embedding.from_pretrained(torch.from_numpy(table)), ids)
    assert [port.shape for port in program.inputs] == [port.shape for port in captured.inputs]
    torch.testing.assert_close(program.run(ids), captured.run(ids), rtol=0, atol=0)
    program.check_example()


@pytest.mark.parametrize("name", NAMES[:-1])
def test_inspect_lists_vectors_and_vocabulary(files, name):
    folder, _, _ = files
    report = inspect_file(folder / name)
    assert (report.kind, report.vocabulary_size, report.tables) == ("vectors", ROWS, [])
    (dense,) = report.dense
    assert (dense.name, dense.num_embeddings, dense.embedding_dim) == ("vectors", ROWS, COLUMNS)
    done = CliRunner().invoke(cli.main, ["inspect", str(folder / name)])
    assert done.exit_code == 0
    assert "word vectors" in done.output
    assert "400 x 16" in done.output


def test_export_of_vectors_is_refused_with_remedy(files, tmp_path):
    with pytest.raises(BadInputError, match=r"no compressed table .*vectors.*edge-embed compress"):
        edge_embed.export(files[0] / "glove.txt", "onnx", tmp_path / "m.onnx")


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_never_replaced_by_compress_with_force(files, name):
    path = files[0] / name
    before = path.read_bytes()
    with pytest.raises(BadInputError, match="is read by this command"):
        edge_embed.compress(path, "dpq", num_codes=16, num_groups=8, output=path, force=True)
    assert path.read_bytes() == before


def test_module_option_selects_table(files, tmp_path):
    save_file({"a.weight": torch.randn(300, 16), "b.weight": torch.randn(200, 16)}, tmp_path / "m.safetensors")
    options = ["--method", "dpq", "--num-codes", "16", "--num-groups", "8", "-o", str(tmp_path / "b.pt"), "--json"]
    command = ["compress", str(tmp_path / "m.safetensors"), *options]
    assert CliRunner().invoke(cli.main, command).exit_code != 0
    done = CliRunner().invoke(cli.main, [*command, "--module", "b"], catch_exceptions=False)
    assert done.exit_code == 0
    (table,) = json.loads(done.stdout)["tables"]
    assert (table["name"], table["num_embeddings"]) == ("b", 200)


def test_input_option_for_vectors_is_refused(files):
    declared = workflow.load(files[0] / "glove.txt").inputs
    with pytest.raises(BadInputError, match="whose input is ids: leave it out"):
        workflow.load(files[0] / "glove.txt", inputs=declared)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"no model at all", b"\0" * 99, b"PK\x03\x04", b"\x80\x04.", b"Chapter 1\n\nIt was", b"{}"]
)
def test_files_without_vectors_are_not_recognised(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    assert load_foreign(tmp_path / "f") is None
    assert load_foreign(tmp_path) is None
    assert load_foreign(tmp_path / "absent") is None


@pytest.mark.parametrize("name", NAMES)
def test_damaged_vectors_raise_only_bad_input(files, tmp_path, name):
    draw, whole, path = random.Random(name), (files[0] / name).read_bytes(), tmp_path / "f"
    refused = 0
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(draw.randint(0, 3)):
            # Half of the damage hits the first 100 bytes, where the sizes are.
            content[draw.choice([draw.randrange(100), draw.randrange(len(content))])] = draw.randrange(256)
        path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])
        try:
            program = load_foreign(path)
        except BadInputError:
            refused += 1
        else:
            if program is not None:
                program.check_example()
    assert refused > 50
