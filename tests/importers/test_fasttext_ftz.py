"""Quantised fastText models, compared with fastText: the same bits for every row, in Python and in exported files."""

import json
import mmap
import random
import struct

import fasttext
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import edge_embed
from edge_embed import cli, workflow
from edge_embed.errors import BadInputError
from edge_embed.importers.fasttext_ftz import read_ftz
from edge_embed.importers.fasttext_model import read_model
from edge_embed.importers.lookup_program import program_of
from edge_embed.importers.recognize import load_foreign
from edge_embed.inspection.inspect import inspect_file

DIM = 10
MODELS = {  # options of training and of quantisation
    "plain": ({}, {}),
    "norms": ({}, {"qnorm": True}),
    "narrow": ({}, {"dsub": 3}),
    "narrow_norms": ({}, {"dsub": 4, "qnorm": True}),
    "one_group": ({}, {"dsub": 16}),
    "quantised_output": ({}, {"qout": True}),
    "ngrams": ({"minn": 2, "maxn": 3}, {"qnorm": True}),
    "pruned_ngrams": ({"minn": 2, "maxn": 4}, {"cutoff": 300, "qnorm": True, "dsub": 3, "retrain": True}),
    "pruned_word_ngrams": ({"wordNgrams": 2}, {"cutoff": 280, "dsub": 5}),
}
names = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return trained models by name: as fastText reads them, and their files."""
    folder, draw, made = tmp_path_factory.mktemp("models"), random.Random(0), {}
    words = ["straße", "日本語", "🙂x", *(f"word{at}" for at in range(270))]
    text = folder / "text.txt"
    lines = [f"__label__{at % 260} {' '.join(draw.choices(words, k=6))}" for at in range(520)]
    text.write_text("\n".join(lines), encoding="utf-8")
    for name, (trained, quantised) in MODELS.items():
        # 11 threads: each initialises a tenth of the matrix, and fewer would leave a part undefined.
        model = fasttext.train_supervised(str(text), dim=DIM, epoch=1, bucket=300, thread=11, verbose=0, **trained)
        model.quantize(input=str(text), epoch=1, verbose=0, **quantised)
        model.save_model(str(folder / f"{name}.ftz"))
        made[name] = fasttext.load_model(str(folder / f"{name}.ftz")), folder / f"{name}.ftz"
    return made


def rows_of(program):
    """Return all rows of a model."""
    num_rows = len(program.module.weight("vectors.codes"))
    (rows,) = program.run(torch.arange(num_rows)[None])
    return rows[0].numpy()


def rows_of_fasttext(model, num_rows):
    return np.stack([model.get_input_vector(row) for row in range(num_rows)])


def assert_same_bits(got, expected):
    assert got.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@names
def test_rows_have_bits_of_fasttext(models, name):
    model, path = models[name]
    program = workflow.load(path)
    rows = rows_of(program)
    assert_same_bits(rows, rows_of_fasttext(model, len(rows)))
    assert list(program.vocabulary) == model.get_words(on_unicode_error="strict")
    assert [(port.name, port.shape) for port in program.inputs] == [("ids", ("batch", "sequence"))]
    program.check_example()


@names
def test_words_are_means_of_rows_that_fasttext_names(models, name):
    (model, path), (trained, quantised) = models[name], MODELS[name]
    rows = rows_of(workflow.load(path))
    assert len(rows) == quantised.get("cutoff", len(model.words) + (300 if trained else 0))
    for row, word in enumerate(model.words):
        _, ids = model.get_subwords(word)
        if "maxn" not in trained:
            assert_same_bits(rows[row], model.get_word_vector(word))
        else:
            assert word == "</s>" or ids[0] == row
        np.testing.assert_allclose(rows[ids].mean(0), model.get_word_vector(word), rtol=1e-5, atol=1e-7)


def test_codes_are_mapped_from_file(models):
    model, path = models["narrow_norms"]
    vectors = read_ftz(read_model(path))
    module = program_of(vectors).module
    for name in ("codes", "row_scale_codes"):
        stored = getattr(vectors.table, name)
        assert module.weight(f"vectors.{name}").data_ptr() == stored.ctypes.data
        while isinstance(stored, np.ndarray):
            stored = stored.base
        assert isinstance(stored.obj if isinstance(stored, memoryview) else stored, mmap.mmap)
    assert module.weight("vectors.codes").shape == (len(model.words), 3)
    assert module.weight("vectors.values").shape == (3, 256, 4)


@names
def test_exported_onnx_file_gives_bits_of_fasttext(models, tmp_path, name):
    model, path = models[name]
    device = tmp_path / "words.onnx"
    report = edge_embed.export(path, "onnx", device)
    (table,) = report.tables
    expected = rows_of_fasttext(model, table.num_embeddings)
    ids = np.arange(table.num_embeddings)[None]
    sessions = edge_embed.create_session(device), onnxruntime.InferenceSession(device)
    for session in sessions:
        (rows,) = session.run(["vectors"], {"ids": ids})
        assert_same_bits(rows[0], expected)
    stored = {entry.key: entry.value for entry in onnx.load(device).metadata_props}
    assert json.loads(stored["edge_embed.vocabulary"]) == model.words


@pytest.mark.parametrize("name", ["plain", "norms", "narrow", "pruned_ngrams"])
def test_exported_tflite_file_gives_bits_of_fasttext(models, tmp_path, name):
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="edge-embed[tflite] is not installed")
    model, path = models[name]
    report = edge_embed.export(path, "tflite", tmp_path / "words.tflite")
    num_rows = report.tables[0].num_embeddings
    run = litert.Interpreter(str(tmp_path / "words.tflite")).get_signature_runner()
    (rows,) = run(ids=np.arange(num_rows)[None]).values()
    assert_same_bits(rows[0], rows_of_fasttext(model, num_rows))


def run(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("target", ["onnx", "tflite"])
def test_commands_export_validate_and_inspect_model(models, tmp_path, target):
    if target == "tflite":
        pytest.importorskip("ai_edge_litert", reason="edge-embed[tflite] is not installed")
    path, device = models["narrow_norms"][1], tmp_path / f"words.{target}"
    for command in (
        ("export", path, "--target", target, "-o", device),
        ("validate", path, device, "--iterations", 2),
        ("inspect", device, "--verify"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output


@names
def test_parts_left_out_are_listed_with_bytes(models, name):
    _, path = models[name]
    parts = {part.what: part for part in inspect_file(path).source.left_out}
    assert (parts["output layer"].count, "loss softmax" in parts["output layer"].reason) == (260, True)
    if name != "quantised_output":
        assert parts["output layer"].nbytes == 4 * 260 * DIM + 17
    assert ("n-gram map" in parts) == ("ngrams" in name)
    if "ngrams" in name:
        assert parts["n-gram map"].nbytes == (8 * parts["n-gram map"].count if "pruned" in name else 0)


def test_export_lists_parts_left_out(models, tmp_path):
    done = run("export", models["plain"][1], "--target", "onnx", "-o", tmp_path / "m.onnx", "--json")
    (output, labels) = json.loads(done.stdout)["source"]["left_out"]
    assert (output["what"], labels["what"], labels["count"]) == ("output layer", "labels", 260)


@pytest.mark.parametrize(("verify", "status"), [(False, "not checked"), (True, "no hash")])
def test_inspect_lists_quantised_vectors(models, verify, status):
    model, path = models["narrow_norms"]
    report = inspect_file(path, verify)
    assert (report.kind, report.vocabulary_size, report.dense, report.notes) == ("vectors", len(model.words), [], [])
    (table,) = report.tables
    size = table.num_embeddings, table.embedding_dim, table.attributes["num_groups"], table.attributes["num_codes"]
    assert (table.name, table.method, *size) == ("vectors", "dpq", len(model.words), DIM, 3, 256)
    assert table.stored_bytes == (3 + 1) * len(model.words) + 4 * 256 * (DIM + 1)  # as in the file
    assert table.hash_status == status
    done = run("inspect", path)
    assert done.exit_code == 0
    assert "word vectors" in done.output
    assert "K=256 D=3 8 bit" in done.output


@pytest.mark.parametrize("options", [("--ratio", 8), ("--method", "dpq", "--ratio", 2, "--module", "vectors")])
def test_compress_refuses_quantised_model(models, tmp_path, options):
    done = run("compress", models["plain"][1], "-o", tmp_path / "small.pt", *options)
    assert done.exit_code == 2
    assert "vectors is already product-quantised: export the model as it is (`edge-embed export`)" in done.stderr
    assert not list(tmp_path.iterdir())


WORDS = ("of", "the")
BUCKETS = 3


def ftz_bytes(dim=5, dsub=2, norms=True, pruned=None, seed=0, **wrong):
    """Return a model of 5 rows in the format of fastText, with random numbers; ``wrong`` replaces sizes."""
    draw = np.random.default_rng(seed)
    num_buckets = BUCKETS if pruned is None else len(pruned)
    num_rows, groups = len(WORDS) + num_buckets, -(-dim // dsub)
    supervised, softmax = 3, 3
    options = (wrong.get("declared", dim), 5, 5, 1, 5, 1, softmax, supervised, BUCKETS, 1, 4, 100, 1e-4)
    entries = [*((word, 0) for word in WORDS), ("__label__x", 1)]
    matrix = norms, wrong.get("rows", num_rows), wrong.get("columns", dim), wrong.get("codes", num_rows * groups)
    quantiser = wrong.get("quantiser", (dim, groups, dsub, dim - (groups - 1) * dsub))
    centroids = draw.normal(size=dim * 256).astype("<f4")
    centroids[:1] = wrong.get("centroid", centroids[0])
    of_norms = abs(draw.normal(size=256)).astype("<f4")
    of_norms[-1:] = wrong.get("norm", of_norms[-1])
    parts = [
        struct.pack("<2i12id", 793712314, 12, *options),
        struct.pack("<3i2q", 3, 2, 1, 100, -1 if pruned is None else len(pruned)),
        *(name.encode() + b"\0" + struct.pack("<qb", 3, entry) for name, entry in entries),
        *(struct.pack("<2i", bucket, row) for row, bucket in enumerate(pruned or ())),
        struct.pack("<b", 1),
        struct.pack("<b2qi", *matrix),
        draw.integers(256, size=num_rows * groups, dtype=np.uint8).tobytes(),
        struct.pack("<4i", *quantiser),
        centroids.tobytes(),
    ]
    if norms:
        parts.append(draw.integers(256, size=num_rows, dtype=np.uint8).tobytes())
        parts += [struct.pack("<4i", *wrong.get("norm_quantiser", (1, 1, 1, 1))), of_norms.tobytes()]
    return b"".join(parts)


WIDE = {"declared": 2**20, "columns": 2**20}
OUTPUT = struct.pack("<b2q", 0, 1, 5)  # its beginning


@settings(max_examples=60)
@given(
    dim=st.integers(1, 9),
    dsub=st.integers(1, 12),
    norms=st.booleans(),
    pruned=st.none() | st.lists(st.integers(0, BUCKETS - 1), unique=True),
    seed=st.integers(0, 99),
)
def test_rows_of_any_sizes_have_bits_of_fasttext(tmp_path_factory, dim, dsub, norms, pruned, seed):
    path = tmp_path_factory.mktemp("m") / "m.ftz"
    output = struct.pack("<b2q", 0, 1, dim) + bytes(4 * dim)
    path.write_bytes(ftz_bytes(dim, dsub, norms, pruned, seed) + output)
    model, program = fasttext.load_model(str(path)), load_foreign(path)
    rows = rows_of(program)
    assert len(rows) == len(WORDS) + (BUCKETS if pruned is None else len(pruned))
    assert_same_bits(rows, rows_of_fasttext(model, len(rows)))
    assert tuple(program.vocabulary) == WORDS
    for word in [*WORDS, "other"]:
        _, ids = model.get_subwords(word)
        assert all(0 <= row < len(rows) for row in ids)


def test_single_group_is_limited_to_its_columns(tmp_path):
    (tmp_path / "m.ftz").write_bytes(ftz_bytes(dsub=2**31 - 1) + OUTPUT)
    assert load_foreign(tmp_path / "m.ftz").module.weight("vectors.values").shape == (1, 256, 5)


class TestRefused:
    @pytest.mark.parametrize(
        ("wrong", "match"),
        [
            ({"rows": 6}, r"a matrix of 6 rows of 5, expected 2 \+ 3 rows of 5"),
            ({"rows": -5}, r"a matrix of -5 rows of 5"),
            ({"columns": 4}, r"a matrix of 5 rows of 4, expected 2 \+ 3 rows of 5"),
            ({"codes": 16}, "got 16 codes for 5 rows, expected a multiple"),
            ({"codes": 0}, "0 codes for 5 rows"),
            ({"codes": -15}, "-15 codes for 5 rows"),
            ({"codes": 2_000_000_000}, "a matrix of 2000000000 codes does not fit into the file"),
            ({"quantiser": (4, 3, 2, 1)}, "got a quantiser of 4 columns .* expected 5 columns in 3 groups"),
            ({"quantiser": (5, 2, 2, 1)}, "a quantiser of 5 columns in 2 groups"),
            ({"quantiser": (5, 3, 2, 2)}, "in 3 groups of 2, the last of 2"),
            ({"quantiser": (5, 3, 1, 3)}, "in 3 groups of 1, the last of 3"),
            ({"quantiser": (5, 3, 3, -1)}, "in 3 groups of 3, the last of -1"),
            ({"quantiser": (5, 3, 0, 5)}, "in 3 groups of 0, the last of 5"),
            ({"quantiser": (5, 3, -2, 9)}, "in 3 groups of -2, the last of 9"),
            ({"norm_quantiser": (2, 1, 1, 1)}, "a quantiser of 2 columns in 1 groups"),
            ({**WIDE, "quantiser": (2**20, 3, 2**19 - 1, 2)}, "the centroids of 1048576 columns does not fit"),
            ({"centroid": np.nan}, "a centroid contains NaN or an infinity"),
            ({"norm": np.inf}, "a centroid contains NaN or an infinity"),
            ({"centroid": 1e30, "norm": 1e30}, "scale 255: got 1.* expected a number that is finite times"),
        ],
    )
    def test_damaged_quantised_model_is_refused_with_reason(self, tmp_path, wrong, match):
        (tmp_path / "m.ftz").write_bytes(ftz_bytes(**wrong) + OUTPUT)
        with pytest.raises(BadInputError, match=rf"m\.ftz: .*{match}"):
            load_foreign(tmp_path / "m.ftz")

    @given(kept=st.integers(10, len(ftz_bytes(pruned=[0, 2])) - 1))
    def test_truncated_quantised_model_is_refused(self, tmp_path_factory, kept):
        path = tmp_path_factory.mktemp("m") / "m.ftz"
        path.write_bytes(ftz_bytes(pruned=[0, 2])[:kept])
        with pytest.raises(BadInputError, match="damaged fastText model"):
            load_foreign(path)

    @settings(max_examples=300)
    @given(
        places=st.lists(
            st.tuples(st.integers(4, 250) | st.integers(4, len(ftz_bytes()) - 1), st.integers(0, 255)), max_size=3
        )
    )
    def test_changed_bytes_are_bad_input_or_finite_rows(self, tmp_path_factory, places):
        content = bytearray(ftz_bytes())
        for place, byte in places:
            content[place] = byte
        path = tmp_path_factory.mktemp("m") / "m.ftz"
        path.write_bytes(content)
        try:
            program = load_foreign(path)
        except BadInputError:
            return
        assert np.isfinite(rows_of(program)).all()
