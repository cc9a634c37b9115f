"""Structs of the C interface: ctypes, the C compiler and the schema agree on their fields and layout."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_embed.bench.c_table import KERNELS, TABLE_VERSION, table_type
from edge_embed.bench.c_types import type_number
from edge_embed.bench.tt import KERNEL as TT
from edge_embed.methods import Parts

from .test_cpp_schema import MOST_TENSORS, nodes_of

SOURCES = Path(__file__).parents[2] / "runtime_ops"
HEADER = (SOURCES / "c_api" / "edge_embed.h").read_text()
CORE = dict(TT.struct._fields_)["cores"]._type_
STRUCTS = {f"ee_{name}_table": kernel.struct for name, kernel in KERNELS.items()}
STRUCTS |= {"ee_tt_core": CORE, "ee_table": table_type()}


def fields_of(name: str) -> list[str]:
    """Return the names of the fields of a struct of the header."""
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", HEADER, re.DOTALL)[1]
    return re.findall(r"(\w+)(?:\[\w+\])?;", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))


def layout_of(name: str, struct: type[ctypes.Structure]) -> Iterator[tuple[str, str]]:
    """Yield C expressions of the sizes and offsets of a struct and its fields, each with the value in ctypes."""
    yield f"sizeof({name})", str(ctypes.sizeof(struct))
    for field in fields_of(name):
        yield f"offsetof({name}, {field})", str(getattr(struct, field).offset)
        yield f"sizeof((({name}*)0)->{field})", str(getattr(struct, field).size)


@pytest.mark.parametrize("name", STRUCTS)
def test_ctypes_structs_declare_fields_of_header(name):
    declared = [field for field, _ in STRUCTS[name]._fields_]
    assert declared == (["version", "method", "parts"] if name == "ee_table" else fields_of(name))


@pytest.mark.parametrize(("language", "standard"), [("c", "c99"), ("c", "c11"), ("c++", "c++17")])
def test_headers_compile_without_pedantic_warnings(language, standard, tmp_path):
    """The headers lie where packages have them; the code uses a field of the union without a name."""
    include = tmp_path / "edge_embed"
    shutil.copytree(SOURCES / "package" / "include" / "edge_embed", include)
    for folder in ("c_api", "kernels"):
        shutil.copytree(SOURCES / folder, include / folder)
    source = tmp_path / "app.c"
    source.write_text(
        "#include <edge_embed/ops.h>\n#include <edge_embed/tflite.h>\n"
        "int main(void) {\n  ee_table table;\n  table.dpq.bits = 1;\n"
        "  return ee_version() == 0 || table.dpq.bits != 1;\n}\n"
    )
    flags = ["-x", language, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", f"-I{tmp_path}", "-fsyntax-only"]
    done = subprocess.run([compiler_of(language), *flags, source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def compiler_of(language: str) -> str:
    compiler = shutil.which("gcc" if language == "c" else "g++") or shutil.which("cc" if language == "c" else "c++")
    if compiler is None:
        pytest.skip(f"no compiler of {language}")
    return compiler


@pytest.mark.parametrize("language", ["c", "c++"])
def test_compiler_layout_equals_ctypes_layout(language, tmp_path):
    expected = dict(pair for name, struct in STRUCTS.items() for pair in layout_of(name, struct))
    assert len(expected) > 80
    prints = "".join(f'  printf("%zu\\n", {expression});\n' for expression in expected)
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include "c_api/edge_embed.h"\nint main(void) {{\n{prints}  return 0;\n}}\n'
    )
    program = tmp_path / "layout"
    flags = [
        "-x",
        language,
        f"-std={'c11' if language == 'c' else 'c++17'}",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
    ]
    subprocess.run([compiler_of(language), *flags, f"-I{SOURCES}", source, "-o", program], check=True)
    found = subprocess.run([program], text=True, capture_output=True, check=True).stdout.split()
    assert dict(zip(expected, found, strict=True)) == expected


def test_method_numbers_equal_those_of_header():
    numbers = re.findall(r"EE_(\w+) = (\d+)", re.search(r"enum ee_method \{(.*?)\}", HEADER)[1])
    assert {name.lower(): int(number) for name, number in numbers} == {
        name: kernel.number for name, kernel in KERNELS.items()
    }
    assert re.search(r"#define EE_TABLE_VERSION (\d+)", HEADER)[1] == str(TABLE_VERSION)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "uint16", "uint32"])
def test_type_numbers_equal_those_of_header(dtype):
    numbers = dict(re.findall(r"EE_(\w+) = (\d+)", (SOURCES / "kernels" / "type.h").read_text()))
    assert str(type_number(np.zeros(1, dtype))) == numbers[dtype.upper()]


@pytest.mark.parametrize("method", Parts("kernels"))
def test_struct_has_tensors_and_attributes_of_schema(method):
    schema = nodes_of(method)
    fields = fields_of(f"ee_{method}_table")
    if "tiers" in fields:
        fields += fields_of("ee_dpq_scaled_table")
    if "plain" in fields:
        fields += fields_of("ee_dpq_table")
    names = {re.sub(r"^tier_\d_", "", name) for name in schema.tensors(MOST_TENSORS)}
    tensors = {re.sub(r"_\d$", "s", name) for name in names}  # core_0, ... are cores
    attributes = {re.sub(r"_\d$", "", name) for name in schema.attribute_names}  # bits_0, ... of tiers
    assert {*tensors, *attributes} - {"format_version"} <= set(fields)
    made = {name.removesuffix("_bytes") for name in fields if name.endswith("_bytes")} - tensors
    assert made <= {"blocks", "tiers", "value_scales"}  # made by ee_prepare; structs; float values have none
