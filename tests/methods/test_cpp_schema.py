"""What C++ repeats of a method: names of its nodes, of their tensors and attributes."""

import re
from pathlib import Path

import pytest

from edge_embed.exporters.onnx.nodes.schema import USES, NodeSchema
from edge_embed.methods import Parts

ADAPTERS = Path(__file__).parents[2] / "runtime_ops" / "ort"
MOST_TENSORS = 6


def plain_nodes(method: str) -> NodeSchema:
    """Those that have kernels: tables with an order or scales of rows are nodes around them."""
    schema, *_ = Parts[tuple[NodeSchema, ...]]("nodes")[method]
    return schema


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_has_the_nodes_of_the_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), plain_nodes(method)
    named = re.findall(r'const char\* k\w+ = "(\w+)";', source)
    assert sorted(named) == sorted(schema.prefix + use.suffix for use in USES.values())


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_has_the_tensors_of_the_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), plain_nodes(method)
    listed = re.search(r"InputSpec kTensors\[\] = \{(.*?)\};", source, re.DOTALL)
    assert tuple(re.findall(r'\{"(\w+)",', listed[1])) == schema.tensors(MOST_TENSORS)


@pytest.mark.parametrize("method", Parts("kernels"))
def test_adapter_reads_the_attributes_of_the_schema(method):
    source, schema = (ADAPTERS / f"{method}.cc").read_text(), plain_nodes(method)
    read = re.findall(r'ReadInt\(node, info, "(\w+)"', source)
    assert {"format_version", *read} == set(schema.attribute_names)


@pytest.mark.parametrize("use", ["bag", "topk"])
def test_adapter_of_a_use_reads_its_attributes(use):
    read = re.findall(r'ReadInt\(node, info, "(\w+)"', (ADAPTERS / f"{use}.cc").read_text())
    assert tuple(read) == USES[use].attribute_names


def test_list_of_adapters_is_that_of_methods_with_kernels():
    listed = re.findall(r"OpSpec k(\w+)Ops\[", (ADAPTERS / "methods.h").read_text())
    assert {name.lower() for name in listed} == set(Parts("kernels"))
