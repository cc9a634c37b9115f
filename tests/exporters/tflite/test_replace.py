"""Replaced tables of other tools' files: packed tables give the expected answers, and the rest of the file stays."""

import hashlib
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parent))

from foreign_files import DIM, METADATA, ROWS, TABLE, WORDS, attach, mean_of_rows, write_foreign

import edge_embed
from edge_embed.compression.tflite.replace import read_dense_tables, replace_tables
from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite import flatbuffer
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.inspection.tflite_file import inspect_tflite
from edge_embed.targets.tflite.runtimes import TARGETS

from ...pairwise import pairwise

DATA = os.environ.get("EDGE_EMBED_DATA")
STORED = WORDS.replace("/", ".").replace(" ", ".")
IDS = np.array([[0, 7, 59, 7]], np.int32)


def ant(longest, weight_type="float32"):
    transform = np.random.default_rng(0).random((ROWS, 20)).astype(np.float32) + 0.1
    transform[:, longest:] = 0
    transform[ROWS // 2 :, 1:] = 0
    anchors = np.random.default_rng(3).normal(size=(20, DIM)).astype(np.float32)
    return edge_embed.PackedANT.from_dense(transform, anchors, 0, weight_type)


def tt():
    random = np.random.default_rng(0)
    cores = [random.normal(size=size).astype(np.float32) for size in ((6, 1, 3, 2), (10, 2, 4, 1))]
    return edge_embed.PackedTT(tuple(cores), ROWS, 0)


PACKED = {
    "dpq pairs": lambda make: (make(16, 4, rows=ROWS, padding_idx=0), "pairs"),
    "dpq byte": lambda make: (make(16, 4, rows=ROWS), "byte"),
    "dpq 3 bits": lambda make: (make(5, 4, rows=ROWS, padding_idx=0), "auto"),
    "dpq direct": lambda make: (make(200, 4, rows=ROWS), "auto"),
    "dpq float16": lambda make: (make(200, 4, rows=ROWS, value_type="float16"), "auto"),
    "dpq int8": lambda make: (make(16, 4, rows=ROWS, value_type="int8"), "auto"),
    "ant of one width": lambda make: (ant(2), "auto"),
    "ant csr int8": lambda make: (ant(20, "int8"), "auto"),
    "tt": lambda make: (tt(), "auto"),
}


def rows_of(packed):
    return packed.rows(np.arange(ROWS)).astype(np.float32)


def open_with_delegate(path):
    """Return an interpreter, and the number of kernels that the delegate took over."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate

    delegate = [load_delegate(str(edge_embed.get_delegate_path()))]
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    opened = Interpreter(str(path), experimental_delegates=delegate, experimental_op_resolver_type=plain)
    return opened, sum(operator["op_name"] == "DELEGATE" for operator in opened._get_ops_details())


def answers(interpreter, ids):
    (detail,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(detail["index"], ids.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(detail["index"], ids)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.fixture
def foreign(tmp_path):
    return attach(write_foreign(tmp_path / "foreign.tflite"), vocab="<PAD> 0\nword 1\n", labels="no\nyes\n")


@pytest.fixture
def packed(make_packed):
    return make_packed(16, 4, rows=ROWS)


class TestAnswers:
    """Answers match the same file whose dense table holds the rows of the packed one."""

    @pytest.mark.parametrize(
        ("kind", "ids_type", "run_file"), pairwise(list(PACKED), ["int32", "int64"], TARGETS), indirect=["run_file"]
    )
    def test_answers_on_both_runtimes_match_packed_rows(self, tmp_path, make_packed, run_file, kind, ids_type):
        packed, table = PACKED[kind](make_packed)
        expected = write_foreign(tmp_path / "expected.tflite", rows_of(packed), ids_type)
        foreign, replaced = write_foreign(tmp_path / "foreign.tflite", TABLE, ids_type), tmp_path / "replaced.tflite"
        replace_tables(foreign, replaced, {WORDS: packed}, table)
        random = np.random.default_rng(4)
        sizes = (1, 4), (3, 4), (1, 9), (2, 9)  # an app may give other sizes than the file has
        cases = [{"ids": random.integers(0, ROWS, size).astype(ids_type)} for size in sizes]
        for (got,), (wanted,) in zip(run_file(replaced, cases), run_file(expected, cases), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "dpq float16"])
    def test_answers_with_delegate_match_packed_rows(self, tmp_path, make_packed, foreign, kind):
        packed, table = PACKED[kind](make_packed)
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed}, table)
        interpreter, kernels = open_with_delegate(tmp_path / "replaced.tflite")
        assert kernels == 1
        expected, _ = open_with_delegate(write_foreign(tmp_path / "expected.tflite", rows_of(packed)))
        np.testing.assert_allclose(answers(interpreter, IDS), answers(expected, IDS), rtol=1e-5, atol=1e-5)

    def test_answers_of_rows_as_output_are_rows_of_table(self, tmp_path, packed):
        foreign = write_foreign(tmp_path / "a.tflite", make=lambda graph, table, ids: graph.gather(table, ids))
        replace_tables(foreign, tmp_path / "b.tflite", {WORDS: packed})
        interpreter, kernels = open_with_delegate(tmp_path / "b.tflite")
        assert kernels == 1
        assert answers(interpreter, IDS).tobytes() == packed.rows(IDS).tobytes()
        before, _ = open_with_delegate(foreign)
        assert interpreter.get_output_details()[0]["name"] == before.get_output_details()[0]["name"]

    def test_answers_to_id_out_of_range_are_errors(self, tmp_path, foreign, packed, run_file):
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        (refused,) = run_file(tmp_path / "replaced.tflite", [{"ids": np.array([[0, 1, ROWS, 2]], np.int32)}])
        assert isinstance(refused, str)

    def test_answers_of_several_tables_and_signatures_match(self, tmp_path, make_packed):
        other = np.random.default_rng(5).normal(size=(9, DIM)).astype(np.float32)

        def two(graph, table, ids):
            again = graph.gather(table, graph.binary("SUB", graph.constant(ROWS - 1), ids))
            few = graph.gather(graph.table("few", other), graph.binary("FLOOR_MOD", ids, graph.constant(9)))
            return graph.sum(graph.binary("ADD", graph.binary("ADD", graph.gather(table, ids), again), few), [1])

        packed, names = make_packed(16, 4, rows=ROWS), ("one", "two")
        expected = write_foreign(tmp_path / "expected.tflite", rows_of(packed), make=two, signatures=names)
        foreign = write_foreign(tmp_path / "foreign.tflite", make=two, signatures=names)
        assert set(read_dense_tables(foreign)) == {WORDS, "few"}
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        assert set(read_dense_tables(tmp_path / "replaced.tflite")) >= {"few"}
        runs = [open_with_delegate(path) for path in (tmp_path / "replaced.tflite", expected)]
        for name in names:
            got, wanted = (run.get_signature_runner(name)(ids=IDS)["answers"] for run, _ in runs)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        content = (tmp_path / "replaced.tflite").read_bytes()
        assert content.count(packed.codes.tobytes()) == 1


class TestTheRest:
    def test_dense_tables_of_file_are_found(self, foreign):
        ((name, rows),) = read_dense_tables(foreign).items()
        assert name == WORDS
        assert rows.dtype == np.float32
        assert rows.tobytes() == TABLE.tobytes()

    def test_dense_rows_are_gone_after_replacing(self, tmp_path, foreign, packed):
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        content = (tmp_path / "replaced.tflite").read_bytes()
        assert TABLE[7].tobytes() in foreign.read_bytes()
        assert TABLE[7].tobytes() not in content
        assert packed.codes.tobytes() in content

    def test_inputs_outputs_signatures_and_metadata_stay(self, tmp_path, foreign, packed):
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        before, after = (open_with_delegate(path)[0] for path in (foreign, tmp_path / "replaced.tflite"))
        for details in ("get_input_details", "get_output_details", "get_signature_list"):
            assert str(getattr(before, details)()) == str(getattr(after, details)())
        models = [load_schema().ModelT.InitFromPackedBuf(path.read_bytes(), 0)
                  for path in (foreign, tmp_path / "replaced.tflite")]  # fmt: skip
        assert models[0].description == models[1].description
        found = {entry.name.decode(): bytes(models[1].buffers[entry.buffer].data) for entry in models[1].metadata}
        assert METADATA.items() <= {name: content.decode() for name, content in found.items()}.items()

    def test_attached_files_stay_readable(self, tmp_path, foreign, packed):
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        with zipfile.ZipFile(foreign) as before, zipfile.ZipFile(tmp_path / "replaced.tflite") as after:
            assert after.namelist() == ["vocab.txt", "labels.txt"]
            assert after.testzip() is None
            assert after.comment == before.comment == b"of the maker"
            for entry in before.infolist():
                assert after.read(entry.filename) == before.read(entry)
                kept = after.getinfo(entry.filename)
                assert (kept.date_time, kept.compress_type) == (entry.date_time, entry.compress_type)

    def test_operators_keep_their_order(self, tmp_path, foreign, packed):
        """A model's state between its runs depends on the order."""
        replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed})
        names = [operator["op_name"] for operator in open_with_delegate(foreign)[0]._get_ops_details()]
        interpreter, _ = open_with_delegate(tmp_path / "replaced.tflite")
        kept = [operator["op_name"] for operator in interpreter._get_ops_details()]
        assert [name for name in kept if name in names[1:]] == names[1:]

    def test_inspect_verifies_replaced_table(self, tmp_path, foreign, packed):
        layouts = replace_tables(foreign, tmp_path / "replaced.tflite", {WORDS: packed}, "pairs")
        report = inspect_tflite(tmp_path / "replaced.tflite", verify=True)
        assert report.differences == []
        (table,) = report.tables
        assert (table.name, table.method) == (STORED, "dpq")
        assert layouts[STORED].name == report.tflite.layouts[STORED] == "pairs"
        content = (tmp_path / "replaced.tflite").read_bytes()
        at = content.index(packed.codes.tobytes())
        (tmp_path / "other.tflite").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert inspect_tflite(tmp_path / "other.tflite", verify=True).differences

    def test_replace_tables_twice_gives_same_bytes(self, tmp_path, foreign, packed):
        for name in "ab":
            replace_tables(foreign, tmp_path / name, {WORDS: packed})
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def refuse(source, tables, message, **options):
    """Assert that the tables are refused and that nothing is written."""
    output = source.parent / "replaced.tflite"
    with pytest.raises(BadInputError, match=message):
        replace_tables(source, output, tables, **options)
    assert {path.name for path in source.parent.iterdir()} == {source.name}


def quantised(graph, table, ids):
    return graph.cast(graph.gather(table, ids), "float32")


class TestRefusals:
    def test_name_of_absent_table_is_refused(self, foreign, packed):
        refuse(foreign, {"words": packed}, f"got a table for 'words', expected one of: {WORDS}$")

    def test_rows_of_another_shape_are_refused(self, foreign, make_packed):
        refuse(foreign, {WORDS: make_packed(16, 4, rows=59)}, r"got packed rows \[59, 12\], expected \[60, 12\]")

    def test_layout_that_table_cannot_have_is_refused(self, foreign, make_packed):
        refuse(foreign, {WORDS: make_packed(5, 4, rows=ROWS)}, "got 'pairs' for 4 groups", tflite_table="pairs")

    def test_integers_without_scales_are_refused(self, tmp_path, packed):
        foreign = write_foreign(tmp_path / "foreign.tflite", TABLE.astype(np.int8), make=quantised)
        refuse(
            foreign,
            {WORDS: packed},
            rf"expected one of: none; cannot replace {WORDS} \(int8 .*: its numbers are int8 without scales",
        )
        assert read_dense_tables(foreign) == {}

    def test_table_needed_as_a_whole_is_refused(self, tmp_path, packed):
        def scaled(graph, table, ids):
            return graph.binary("MUL", graph.slice(graph.gather(table, graph.flatten(ids)), 0, 1), table)

        refuse(write_foreign(tmp_path / "a.tflite", make=scaled), {WORDS: packed}, "got other uses by MUL")

    def test_table_needed_as_a_whole_by_another_signature_is_refused(self, tmp_path, packed):
        def looked_up_once(graph, table, ids):
            once.append(True)
            return mean_of_rows(graph, table, ids) if len(once) == 1 else graph.sum(table, [0])

        once = []
        foreign = write_foreign(tmp_path / "a.tflite", make=looked_up_once, signatures=("one", "two"))
        refuse(foreign, {WORDS: packed}, "got other uses by SUM")

    def test_tables_replaced_before_are_refused(self, tmp_path, foreign, packed):
        replace_tables(foreign, tmp_path / "a.tflite", {WORDS: packed})
        foreign.unlink()
        refuse(tmp_path / "a.tflite", {WORDS: packed}, "already contains compressed tables: replace all of them")

    def test_file_of_another_format_is_refused(self, tmp_path, packed):
        (tmp_path / "a.tflite").write_bytes(b"PK\3\4 something else altogether")
        refuse(tmp_path / "a.tflite", {WORDS: packed}, r"expected b'TFL3': check that it is a TFLite model")

    def test_file_that_is_absent_is_refused(self, tmp_path, packed):
        with pytest.raises(BadInputError, match="there is no such file, expected a TFLite model"):
            replace_tables(tmp_path / "absent.tflite", tmp_path / "out.tflite", {WORDS: packed})

    def test_tables_too_large_for_one_file_are_refused(self, foreign, packed, monkeypatch):
        monkeypatch.setattr(flatbuffer, "_MOST_BYTES", 100)
        refuse(foreign, {WORDS: packed}, "exceed the limit of one TFLite file")

    def test_existing_output_is_kept_without_force(self, tmp_path, foreign, packed):
        (tmp_path / "out.tflite").write_bytes(b"kept")
        with pytest.raises(BadInputError, match="exists"):
            replace_tables(foreign, tmp_path / "out.tflite", {WORDS: packed})
        assert (tmp_path / "out.tflite").read_bytes() == b"kept"
        replace_tables(foreign, tmp_path / "out.tflite", {WORDS: packed}, force=True)
        assert [table.name for table in inspect_tflite(tmp_path / "out.tflite", verify=True).tables] == [STORED]

    def test_replace_tables_onto_its_own_input_is_refused(self, foreign, packed):
        refuse_itself = pytest.raises(BadInputError, match="is read by this command")
        before = foreign.read_bytes()
        with refuse_itself:
            replace_tables(foreign, foreign, {WORDS: packed}, force=True)
        assert foreign.read_bytes() == before


class TestDamage:
    """A damaged file raises `BadInputError`, or is read as the valid model that it has become."""

    @pytest.mark.parametrize("share", np.linspace(0.001, 0.999, 40))
    def test_file_cut_anywhere_is_refused(self, tmp_path, packed, share):
        source = write_foreign(tmp_path / "whole.tflite")
        content = source.read_bytes()
        source.unlink()
        (tmp_path / "cut.tflite").write_bytes(content[: int(share * len(content))])
        refuse(tmp_path / "cut.tflite", {WORDS: packed}, "is damaged|TFLite model|expected one of")

    def test_archive_that_was_cut_is_refused(self, foreign, packed):
        foreign.write_bytes(foreign.read_bytes()[:-30])
        refuse(foreign, {WORDS: packed}, "the zip archive after the model is truncated")

    def test_archive_that_was_changed_is_refused(self, foreign, packed):
        content = foreign.read_bytes()
        foreign.write_bytes(content.replace(b"<PAD> 0", b"<PAD> 1"))
        refuse(foreign, {WORDS: packed}, "the zip archive after the model is damaged")

    @pytest.mark.parametrize("seed", range(8))
    def test_file_with_changed_bytes_is_refused_or_read(self, tmp_path, packed, seed):
        random = np.random.default_rng(seed)
        whole = write_foreign(tmp_path / "whole.tflite").read_bytes()
        structure = [
            at for at in range(len(whole)) if at < 16 or at > whole.rindex(TABLE.tobytes()[:64]) + TABLE.nbytes
        ]
        for _ in range(60):
            content = bytearray(whole)
            for at in random.choice(structure, 2):
                content[at] = random.integers(256)
            (tmp_path / "a.tflite").write_bytes(content)
            try:
                replace_tables(tmp_path / "a.tflite", tmp_path / "b.tflite", {WORDS: packed}, force=True)
            except BadInputError:
                continue


@pytest.mark.skipif(DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)")
@pytest.mark.parametrize("name", ["movie_review", "nl_classifier_regex", "regex_one_embedding"])
def test_published_classifiers_answer_as_before(tmp_path, make_packed, run_file, name):
    """Their table is replaced by an exact one; their words and labels stay."""
    with tarfile.open(Path(DATA) / "tflite-nlclassifier.tar.xz") as files:
        files.extractall(tmp_path, filter="data")
    source = tmp_path / "tflite-nlclassifier" / f"{name}.tflite"
    ((table, rows),) = read_dense_tables(source).items()
    assert rows.shape == (10003, 16)
    codes = np.repeat(np.arange(len(rows), dtype=np.uint16)[:, np.newaxis], 1, axis=1)
    exact = edge_embed.PackedDPQ.from_codes(codes, rows[np.newaxis])  # a code for every row
    replace_tables(source, tmp_path / "exact.tflite", {table: exact})
    small = make_packed(16, 8, width=2, rows=len(rows))
    replace_tables(source, tmp_path / "small.tflite", {table: small})
    attached = source.stat().st_size - 643_356 if zipfile.is_zipfile(source) else 0
    assert (tmp_path / "small.tflite").stat().st_size < 52_000 + attached + 6_000
    (port,) = inspect_tflite(source, verify=False).inputs
    signature = {"input_2": "serving_default_input_2:0"}.get(port.name, port.name)
    ids = np.random.default_rng(0).integers(0, len(rows), (20, 1, 256)).astype(np.int32)
    before, after = (
        run_file(path, [{signature: each} for each in ids]) for path in (source, tmp_path / "exact.tflite")
    )
    for (expected,), (got,) in zip(before, after, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    if zipfile.is_zipfile(source):
        digests = [_digests(path) for path in (source, tmp_path / "small.tflite")]
        assert digests[0] == digests[1]
        assert "vocab.txt" in digests[0]


def _digests(path):
    with zipfile.ZipFile(path) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
