"""Damaged and impossible archives raise a clear BadInputError, without large allocations."""

import io
import json
import pickletools
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attacks
import pytest
import torch

from edge_embed.errors import BadInputError
from edge_embed.program.reader import read_program


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt"


def refuse(path: Path, data: bytes, match: str) -> None:
    path.write_bytes(data)
    with pytest.raises(BadInputError, match=match) as caught:
        read_program(path)
    assert str(path) in str(caught.value)
    assert sorted(path.parent.iterdir()) == [path]


def edited(name: str, change: Callable[[Any], None]) -> bytes:
    members = attacks.clean()
    attacks.edit(members, name, change)
    return attacks.pack(members)


def test_clean_archive_is_read(path: Path) -> None:
    path.write_bytes(attacks.pack(attacks.clean()))
    program = read_program(path)
    assert [(item.name, item.shape) for item in program.inputs] == [
        ("ids", ("batch", "sequence")), ("mask", ("batch", "sequence"))
    ]  # fmt: skip
    assert program.output_names == ("logits", "sides")
    assert program.vocabulary is not None
    assert program.vocabulary[3] == "w3"
    assert program.metadata == {"task": "test"}


def test_truncated_archive_is_refused_at_every_length(path: Path) -> None:
    data = attacks.pack(attacks.clean())
    for length in range(0, len(data), 211):
        path.write_bytes(data[:length])
        with pytest.raises(BadInputError):
            read_program(path)


def test_flipped_bits_in_weight_are_noticed(path: Path) -> None:
    members = attacks.clean()
    data = attacks.pack(members)
    begin = data.index(members["data/weights/weight_0"])
    for at in range(begin, begin + len(members["data/weights/weight_0"]), 37):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        refuse(path, bytes(damaged), "checksum of data/weights/weight_0")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06" + bytes(18), b"x" * 1000])
def test_file_that_is_no_archive_is_refused(content: bytes, path: Path) -> None:
    refuse(path, content, "damaged or not a saved model")


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    for wrong in (tmp_path / "none.pt", tmp_path):
        with pytest.raises(BadInputError, match=str(wrong)):
            read_program(wrong)


# --- the archive -----------------------------------------------------------------------------------------


def test_compressed_members_are_refused(path: Path) -> None:
    """A zip bomb could unpack to any size; torch never compresses."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in attacks.clean().items():
            archive.writestr("archive/" + name, content)
    refuse(path, file.getvalue(), "compressed")


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "a//b", "a\\b", "/etc/passwd", "a\x1b[2Jb", "./a"])
def test_escaping_names_are_refused(name: str, path: Path) -> None:
    members = attacks.clean()
    members[name] = b"x"
    refuse(path, attacks.pack(members), "invalid name|top-level folder")


def test_archive_with_two_top_folders_is_refused(path: Path) -> None:
    data = io.BytesIO(attacks.pack(attacks.clean()))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(zipfile.ZipInfo("other/models/model.json"), b"{}")
    refuse(path, data.getvalue(), "2 top-level folders")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_members_are_refused(path: Path) -> None:
    data = io.BytesIO(attacks.pack(attacks.clean()))
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(zipfile.ZipInfo("archive/models/model.json"), b"{}")
    refuse(path, data.getvalue(), "two members are named models/model.json")


def test_links_in_archive_are_refused(path: Path) -> None:
    data = io.BytesIO(attacks.pack(attacks.clean()))
    with zipfile.ZipFile(data, "a") as archive:
        link = zipfile.ZipInfo("archive/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    refuse(path, data.getvalue(), "is a link")


def directory_of(data: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.start_dir


def test_encrypted_members_are_refused(path: Path) -> None:
    data = bytearray(attacks.pack(attacks.clean()))
    data[directory_of(data) + 8] |= 1
    refuse(path, bytes(data), "encrypted")


def test_overlapping_members_are_refused(path: Path) -> None:
    """Thousands of members over the same bytes would take hours to check."""
    members = attacks.clean()
    data = bytearray(attacks.pack(members | {"copy": members["archive_version"]}))
    first = directory_of(data)
    entries = []
    while data[first : first + 4] == b"PK\x01\x02":
        name, extra, comment = struct.unpack_from("<3H", data, first + 28)
        entries.append((first, bytes(data[first + 46 : first + 46 + name])))
        first += 46 + name + extra + comment
    offset = {name: struct.unpack_from("<I", data, at + 42)[0] for at, name in entries}
    copy = next(at for at, name in entries if name == b"archive/copy")
    struct.pack_into("<I", data, copy + 42, offset[b"archive/archive_version"])
    refuse(path, bytes(data), "overlap")


@pytest.mark.parametrize("name", [attacks.MODEL, attacks.WEIGHTS, attacks.CONSTANTS])
@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": 1' + b"0" * 9999 + b"}"]
)
def test_member_that_is_no_json_object_is_refused(name: str, content: bytes, path: Path) -> None:
    refuse(path, attacks.pack(attacks.clean() | {name: content}), "not a saved model")


@pytest.mark.parametrize("name", [attacks.MODEL, attacks.WEIGHTS, attacks.CONSTANTS, "data/weights/weight_0"])
def test_missing_members_are_refused(name: str, path: Path) -> None:
    members = attacks.clean()
    del members[name]
    refuse(path, attacks.pack(members), "not a saved model")


def test_schema_of_another_version_names_remedy(path: Path) -> None:
    refuse(path, edited(attacks.MODEL, lambda model: model["schema_version"].update(major=9)), "export schema 9.*save")


# --- weights ---------------------------------------------------------------------------------------------


def _meta(**changes: Any) -> bytes:
    def change(content: Any) -> None:
        content["config"]["head.weight"]["tensor_meta"].update(changes)

    return edited(attacks.WEIGHTS, change)


def sizes(*values: Any) -> list[dict[str, Any]]:
    return [{"as_int": value} for value in values]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"sizes": sizes(4, 9)}, "got .* bytes in .*, expected"),
        ({"sizes": sizes(2**62, 8)}, "got .* bytes in .*, expected"),
        ({"storage_offset": {"as_int": 1}}, "got .* bytes in .*, expected"),
        ({"sizes": sizes(-1, 8)}, "invalid size"),
        ({"sizes": sizes(2**63, 8)}, "invalid size"),
        ({"sizes": sizes(True, 8)}, "invalid size"),
        ({"sizes": sizes(4.0, 8)}, "invalid size"),
        ({"sizes": [{"as_expr": {"expr_str": "9**9**9"}}, {"as_int": 8}]}, "invalid size"),
        ({"sizes": sizes(4)}, "1 sizes and 2 strides"),
        ({"sizes": sizes(*[1] * 65), "strides": sizes(*[1] * 65)}, "65 sizes"),
        ({"sizes": sizes(2**40, 8), "strides": sizes(0, 1)}, "expands"),
        ({"sizes": sizes(0, 2**62), "strides": sizes(1, 1)}, "expands"),
        ({"dtype": 9}, "is complex32"),
        ({"dtype": 99}, "type 99"),
        ({"dtype": [7]}, "not a saved model"),
        ({"layout": 2}, "layout 2"),
    ],
)
def test_impossible_weights_are_refused(changes: dict[str, Any], match: str, path: Path) -> None:
    refuse(path, _meta(**changes), match)


def test_expanded_weight_is_accepted(path: Path) -> None:
    path.write_bytes(_meta(strides=sizes(0, 1)))
    weight = read_program(path).module.weight("head.weight")
    assert torch.equal(weight, weight[:1].expand(4, 8))


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "", "__class__", "a.__dict__", "a\nb", "head.bias.x"])
def test_impossible_names_of_weights_are_refused(name: str, path: Path) -> None:
    members = attacks.clean()
    for member in (attacks.WEIGHTS, attacks.MODEL):
        members[member] = members[member].replace(b'"head.weight"', json.dumps(name).encode())
    refuse(path, attacks.pack(members), "weight")


# --- the graph -------------------------------------------------------------------------------------------


def _graph(change: Callable[[list[Any]], None]) -> bytes:
    return edited(attacks.MODEL, lambda model: change(model["graph_module"]["graph"]["nodes"]))


def linear(nodes: list[Any]) -> Any:
    return next(node for node in nodes if "linear" in node["target"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda nodes: nodes.reverse(), "not a saved model"),
        (lambda nodes: nodes.append(nodes[0]), "defined twice"),
        (lambda nodes: nodes.pop(0), "not a saved model"),
        (lambda nodes: linear(nodes)["inputs"].pop(), None),
        (lambda nodes: linear(nodes).update(inputs=linear(nodes)["inputs"][:1]), "argument weight is missing"),
        (lambda nodes: linear(nodes)["inputs"].extend(linear(nodes)["inputs"]), "expected at most 3"),
        (lambda nodes: linear(nodes)["inputs"][0].update(arg={"as_string": "x"}), "argument input: got 'x'"),
        (lambda nodes: linear(nodes)["inputs"][0].update(arg={"as_ints": [1]}), "argument input: got"),
        (lambda nodes: linear(nodes)["inputs"][0].update(arg={"as_int": "1"}), "as_int"),
        (lambda nodes: linear(nodes)["inputs"][2].update(kind=2, name="biass"), "'biass' of the file is unknown"),
        (lambda nodes: linear(nodes)["inputs"][2].update(kind=2, name="weight"), "'weight' of .* duplicate"),
        (lambda nodes: linear(nodes).update(outputs=[]), "got 0 results in the file, expected 1"),
        (lambda nodes: linear(nodes)["outputs"].append({"as_tensor": {"name": "more"}}), "got 2 results .*expected 1"),
        (lambda nodes: linear(nodes).update(outputs=[{"as_tensors": [{"name": "more"}]}]), "results"),
        (lambda nodes: linear(nodes)["inputs"][0].update(arg={"as_tensor": {"name": "linear"}}), "not a saved model"),
    ],
)  # fmt: skip
def test_impossible_graphs_are_refused(change: Callable[[list[Any]], Any], match: str | None, path: Path) -> None:
    data = _graph(lambda nodes: change(nodes) and None)
    if match is not None:
        refuse(path, data, match)
        return
    path.write_bytes(data)  # an optional argument may be missing
    read_program(path)


def test_shape_arithmetic_accepts_numbers_only(path: Path) -> None:
    """``'x' * 10**12`` is legal Python, and takes a terabyte."""

    def change(nodes: list[Any]) -> None:
        node = next(node for node in nodes if node["target"] == "_operator.mul")
        node["inputs"][0]["arg"] = {"as_string": "x"}

    refuse(path, _graph(change), "expected 2 numbers")


def test_graph_in_training_mode_is_refused(path: Path) -> None:
    call = attacks._call(
        "torch.ops.aten.dropout.default", {"as_tensor": {"name": "linear"}}, {"as_float": 0.5}, {"as_bool": True}
    )
    refuse(path, _graph(lambda nodes: nodes.append(call)), "training mode")


# --- the part that edge_embed.save adds ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format_version": 2}, "format 2, expected 1"),
        ({"format_version": True}, "format True"),
        ({"format_version": None}, "format None"),
        ({"vocabulary": "abc"}, "vocabulary: got 'abc'"),
        ({"vocabulary": ["a", 1]}, "vocabulary: got 1 at position 1"),
        ({"vocabulary": ["\ud800"]}, "surrogate"),
        ({"metadata": ["a"]}, "metadata"),
        ({"metadata": {"a": {}}}, "metadata 'a': got {}, expected a string"),
        ({"metadata": {"a": "b", "c": 3}}, "metadata 'c': got 3, expected a string"),
        ({"outputs": ["a\nb", "c"]}, "outputs"),
        ({"outputs": ["x" * 257, "c"]}, "outputs"),
        ({"outputs": [1, 2]}, "outputs"),
        ({"dimensions": {"ids": ["batch"]}}, "dimensions"),
        ({"dimensions": {"ids": {"0": "a b"}}}, "dimensions"),
        ({"dimensions": {"ids": {"0": 7}}}, "dimensions"),
    ],
)
def test_impossible_extra_values_are_refused(changes: dict[str, Any], match: str, path: Path) -> None:
    refuse(path, edited(attacks.EXTRA, lambda extra: extra.update(changes)), match)


def test_output_never_has_name_of_input(path: Path) -> None:
    path.write_bytes(edited(attacks.EXTRA, lambda extra: extra.update(outputs=["ids", "mask"])))
    assert read_program(path).output_names == ("ids_output", "mask_output")


# --- example inputs --------------------------------------------------------------------------------------


def samples(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return attacks.pack(attacks.clean() | {attacks.SAMPLES: file.getvalue()})


IDS, MASK = torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5)


def looped() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def doubling() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (((IDS,), {}), "got 1 example inputs, expected 2"),
        (((IDS, MASK, MASK), {}), "got 3 example inputs, expected 2"),
        (((MASK, IDS), {}), r"input ids is float32\[2,5\], expected int64\[batch,sequence\]"),
        (((IDS.int(), MASK), {}), r"int32\[2,5\]"),
        (((IDS[0], MASK), {}), r"int64\[5\]"),
        (((IDS, None), {}), "NoneType"),
        (((IDS, "mask"), {}), "a str"),
        (((IDS, {1, 2}), {}), "builtins.set"),
        (((IDS.to_sparse(), MASK), {}), "sparse"),
        (((IDS.to("meta"), MASK), {}), "meta"),
        (((torch.zeros(1, 1, dtype=torch.int64).expand(2**20, 2**10), MASK), {}), "larger than"),
        (looped(), "more than 4096 parts"),
        (doubling(), "more than 4096 parts"),
        ([[]] * 5000, "more than 4096 parts"),
    ],
)
def test_impossible_examples_are_refused(value: Any, match: str, path: Path) -> None:
    refuse(path, samples(value), match)


class Calls:
    """An object whose pickle is a call with chosen arguments."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def test_pickle_cannot_allocate_memory(path: Path) -> None:
    """The restricted unpickler of torch accepts this and allocates 64 GB."""
    refuse(path, samples(((Calls(bytearray, 2**36), MASK), {})), "builtins.bytearray")


def test_storage_has_its_declared_size(path: Path) -> None:
    inner = attacks.unpack(attacks.clean()[attacks.SAMPLES])
    ops = [(operation.name, at) for operation, _, at in pickletools.genops(inner["data.pkl"])]
    end = next(index for index, (name, _) in enumerate(ops) if name == "BINPERSID")
    at = max(at for name, at in ops[:end] if name == "BININT1")  # the number of elements
    data = inner["data.pkl"]
    inner["data.pkl"] = data[:at] + b"J" + (2**31 - 1).to_bytes(4, "little") + data[at + 2 :]
    refuse(path, attacks.pack(attacks.clean() | {attacks.SAMPLES: attacks.pack(inner)}), "cannot be read")


def test_examples_that_are_no_archive_are_refused(path: Path) -> None:
    refuse(path, attacks.pack(attacks.clean() | {attacks.SAMPLES: b"\x80\x02N."}), "damaged")


def test_archive_without_examples_is_refused(path: Path) -> None:
    members = attacks.clean()
    del members[attacks.SAMPLES]
    refuse(path, attacks.pack(members), "no example inputs: save the model with edge_embed.save")


def test_fixed_sizes_apply_to_examples_and_runs(path: Path) -> None:
    def fix(model: Any) -> None:
        model["graph_module"]["graph"]["tensor_values"]["ids"]["sizes"][1] = {"as_int": 6}

    refuse(path, edited(attacks.MODEL, fix), r"int64\[2,5\], expected int64\[batch,6\]")
