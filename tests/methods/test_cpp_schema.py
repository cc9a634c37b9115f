"""Names and limits that C++ repeats: nodes of a method, their tensors and attributes, fields of the manifest."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edge_embed.bench import ant, dpq, tt
from edge_embed.exporters.onnx.nodes.schema import USES, NodeSchema
from edge_embed.exporters.tflite.method import TfliteMethod
from edge_embed.methods import Parts
from edge_embed.packed.bits import MAX_CODES, MIN_CODES
from edge_embed.packed.row_scales import MAX_ROW_SCALES
from edge_embed.packed.tier_map import NUM_TIERS
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import TIERED_TENSORS
from edge_embed.packed.topk import MAX_K
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES

SOURCES = Path(__file__).parents[2] / "runtime_ops"
ADAPTERS = SOURCES / "ort"
MOST_TENSORS = len(TIERED_TENSORS)
LIMITS = {
    "EE_MIN_CODES": MIN_CODES,
    "EE_MAX_CODES": MAX_CODES,
    "EE_MIN_CORES": MIN_CORES,
    "EE_MAX_CORES": MAX_CORES,
    "EE_MAX_K": MAX_K,
    "EE_MAX_ROW_SCALES": MAX_ROW_SCALES,
    "EE_NUM_TIERS": NUM_TIERS,
}


def nodes_of(kernels: str) -> NodeSchema:
    """Return the schema of the nodes that kernels compute; row orders are other nodes around them."""
    every = Parts[tuple[NodeSchema, ...]]("nodes")[kernels.split("_", maxsplit=1)[0]]
    (schema,) = (schema for schema in every if schema.prefix.lower() == kernels.replace("_", ""))
    return schema


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_has_nodes_of_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), nodes_of(method)
    named = re.findall(r'const char\* k\w+ = "(\w+)";', source)
    assert sorted(named) == sorted(schema.prefix + use.suffix for use in USES.values())


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_has_tensors_of_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), nodes_of(method)
    listed = re.search(r"InputSpec kTensors\[\] = \{(.*?)\};", source, re.DOTALL)
    assert tuple(re.findall(r'\{"(\w+)",', listed[1])) == schema.tensors(MOST_TENSORS)


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_reads_attributes_of_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), nodes_of(method)
    if "ReadDpqAttributes(node" in source:
        source += (ADAPTERS / "dpq.cc").read_text()
    read = re.findall(r'ReadInt\(node, info, "(\w+)"', source) + re.findall(r'"((?:bits|num_\w+)_\d)"', source)
    assert {"format_version", *read} == set(schema.attribute_names)


@pytest.mark.parametrize("use", ["bag", "topk"])
def test_adapter_of_use_reads_its_attributes(use):
    read = re.findall(r'ReadInt\(node, info, "(\w+)"', (ADAPTERS / f"{use}.cc").read_text())
    assert tuple(read) == USES[use].attribute_names


def test_methods_header_lists_methods_with_kernels():
    listed = re.findall(r"\bX\((\w+), (\w+)\)", (SOURCES / "kernels" / "methods.h").read_text())
    assert listed == [(name, name.upper()) for name in Parts("kernels")]


def test_limits_equal_those_of_packed_form():
    found = re.findall(r"#define (EE_\w+) (\d+)", (SOURCES / "kernels" / "limits.h").read_text())
    assert {name: int(value) for name, value in found} == LIMITS


def fields_of_manifest(method: str) -> Iterable[str]:
    """Return the fields of the manifest for tables with all optional tensors of the method."""
    part, random = Parts[TfliteMethod]("tflite")[method.split("_", maxsplit=1)[0]], np.random.default_rng(0)
    if method in ("dpq", "dpq_scaled"):
        plain = dpq.random_table(random, 20, 8, 16, 4)
        scales = np.ones(4, np.float32)
        packed = replace(plain, values=plain.values.astype(np.int8), value_scales=scales)
        rows = {"row_scale_codes": np.zeros(20, np.uint8), "row_scales": scales, "unused_columns": 1}
        tables = [(packed if method == "dpq" else replace(packed, **rows), "byte")]
    elif method == "tiered":
        plain = dpq.random_table(random, 20, 8, 16, 4)
        scaled = replace(plain, row_scale_codes=np.zeros(20, np.uint8), row_scales=np.ones(4, np.float32))
        tier_of = np.arange(60) % 3
        tables = [(PackedTiered.from_tiers((scaled, plain, plain), tier_of), "tiers")]
        tables.append((PackedTiered((plain, scaled, scaled)), "tiers"))
    elif method == "ant":
        some = ant.random_table(random, 20, 8, 5, 2)
        packed = replace(some, weights=np.ones_like(some.weights, np.int8), weight_scale=np.array([2], np.float32))
        tables = [(packed, "csr"), (packed, "fixed")]
    else:
        core = np.ones((2, 1, 2, 1), np.float32)
        tables = [(replace(tt.random_table(random, 20, 8, 2), cores=(core,) * MAX_CORES), "cores")]
    return {name for packed, layout in tables for name in part.fields("table", packed, layout) or ()} - {"method"}


@pytest.mark.parametrize("method", [name for name in Parts("kernels") if name.split("_")[0] in Parts("tflite")])
def test_delegate_reads_fields_that_exporter_writes(method):
    source = (SOURCES / "tflite" / f"{method}.cc").read_text()
    if method == "dpq_scaled":  # whose reader calls that of dpq
        source += (SOURCES / "tflite" / "dpq.cc").read_text()
    read = re.findall(r'->(?:Read\w+|Integer\w*)\("(\w+)"', source) + re.findall(r'"(core_\d)"', source)
    written = {*fields_of_manifest(method), "padding_idx"}
    if method == "tiered":  # whose reader calls that of dpq_scaled for each tier
        of_tier = {*fields_of_manifest("dpq_scaled")} - {"unused_columns", "value_scales"}
        read += [f"tier_{number}_{field}" for number in range(NUM_TIERS) for field in of_tier]
    assert set(read) == written
