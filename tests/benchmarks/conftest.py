"""Programs of this folder as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def export_cost() -> ModuleType:
    return load_program("export_cost")


@pytest.fixture(scope="module")
def session_growth() -> ModuleType:
    return load_program("session_growth")
