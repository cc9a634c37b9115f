"""External data of ONNX files: wrong locations and sizes are refused, and the data is never loaded."""

import os

import onnx
import pytest
from onnx import TensorProto

from edge_embed.errors import BadInputError
from edge_embed.inspection.inspect import inspect_file


def initializer(model: onnx.ModelProto, name: str) -> TensorProto:
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def point(model: onnx.ModelProto, **entries: str) -> None:
    tensor = initializer(model, "token.codes")
    kept = {entry.key: entry.value for entry in tensor.external_data} | entries
    del tensor.external_data[:]
    for key, value in kept.items():
        tensor.external_data.add(key=key, value=value)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret"}, r"external data '\.\./secret': is outside the model's folder"),
        ({"location": "/etc/passwd"}, "is outside the model"),
        ({"location": "a/../../secret"}, "is outside the model"),
        ({"location": "..\\secret"}, "is outside the model"),
        ({"location": "C:\\secret"}, "is outside the model"),
        ({"location": "out"}, "external data 'out': is outside"),
        ({"location": "loop"}, "external data 'loop'"),
        ({"location": "missing.data"}, "external data 'missing.data': No such file.*beside the model"),
        ({"location": "."}, "is not a regular file"),
        ({"location": "pipe"}, "is not a regular file"),
        ({"location": ""}, "expected a file name"),
        ({"location": "a\0b"}, "expected a file name"),
        ({"offset": "1000000"}, "external.onnx.data': got .* bytes, expected at least"),
        ({"offset": "-1"}, "got '-1', expected a number of bytes"),
        ({"offset": "1_0"}, "expected a number of bytes"),
        ({"length": "9" * 30}, "expected a number of bytes"),
        ({"length": "100"}, "got 100 bytes of external data, expected 2000"),
    ],
)
def test_external_data_outside_folder_or_too_short_is_refused(files, changed, entries, message):
    (files.parent / "secret").write_bytes(bytes(5000))
    (files / "out").symlink_to(files.parent / "secret")
    (files / "loop").symlink_to(files / "loop")
    os.mkfifo(files / "pipe")
    path = changed(lambda model: point(model, **entries), "external.onnx")
    with pytest.raises(BadInputError, match=message) as caught:
        inspect_file(path, verify=True)
    assert "tensor 'token.codes'" in str(caught.value)


def test_external_data_truncated_is_refused_with_both_sizes(files):
    data = files / "external.onnx.data"
    size = data.stat().st_size
    with data.open("r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(BadInputError, match=f"got {size - 1} bytes, expected at least {size}: it is truncated"):
        inspect_file(files / "external.onnx")


def test_external_data_behind_link_inside_folder_is_read(files):
    (files / "external.onnx.data").rename(files / "weights.bin")
    (files / "external.onnx.data").symlink_to("weights.bin")
    assert inspect_file(files / "external.onnx", verify=True).exit_code == 0


def test_external_data_not_aligned_gives_warning(files, changed):
    data = files / "external.onnx.data"
    content = data.read_bytes()
    model = onnx.load(files / "external.onnx", load_external_data=False)
    place = {entry.key: entry.value for entry in initializer(model, "token.codes").external_data}
    begin, length = int(place["offset"]), int(place["length"])
    data.write_bytes(content + b"." * (1 - len(content) % 4) + content[begin : begin + length])
    offset = str(data.stat().st_size - length)
    path = changed(lambda model: point(model, offset=offset), "external.onnx")
    report = inspect_file(path, verify=True)
    assert report.exit_code == 0
    assert report.onnx.data_files[0].alignment < 64
    assert report.warnings[0].startswith("1 tensors of external data are not aligned")


def test_external_data_of_64_gib_is_not_loaded(files, changed):
    """The data is a sparse file of 64 GiB: code that reads it would run out of time or memory."""
    with (files / "huge.data").open("wb") as file:
        file.truncate(64 << 30)

    def change(model):
        tensor = model.graph.initializer.add(name="huge", data_type=TensorProto.UINT8, dims=[64, 1 << 30])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="huge.data")

    report = inspect_file(changed(change), verify=True)
    assert report.exit_code == 0
    assert report.total_bytes > 64 << 30
