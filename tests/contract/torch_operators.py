"""Lines of the schemas of all operators that the package registers with torch, as saved programs name them."""

import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import torch

from edge_embed import ops


def operator_lines() -> Iterator[str]:
    for module in iter_modules(ops.__path__, "edge_embed.ops."):
        import_module(module.name)
    pattern = re.compile(r"^edge_embed::(?!toy_)")  # a test of methods registers these operators
    yield from sorted(str(schema) for schema in torch._C._jit_get_all_schemas() if pattern.match(schema.name))
