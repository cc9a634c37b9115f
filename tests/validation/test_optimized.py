"""Tables stay packed after loading, and the operator library runs only where it is registered."""

import numpy as np
import pytest

from edge_embed.runtime import session
from edge_embed.runtime.session import create_session
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.optimized_session import LEVELS, Optimized, kernel_check, optimize

REST_OF_BODIES = 2048  # constants of the body: a few hundred bytes a node


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_initializers_of_optimised_model_stay_packed(originals, level, library):
    original = originals["never"]
    found = optimize(original.path, level, library)
    stored = ExportedModel(original.path).initializer_bytes()
    assert stored <= found.initializer_bytes <= stored + REST_OF_BODIES
    assert found.own_nodes == (2 if library else 0)


def test_portable_session_with_external_data_runs_without_library(originals, monkeypatch):
    program, path = originals["always"].program, originals["always"].path
    ids, features = (tensor.numpy() for tensor in program.example_inputs)
    assert originals["always"].data in ExportedModel(path).files
    monkeypatch.setattr(session, "get_library_path", lambda: pytest.fail("the library is looked for"))
    logits, padded = create_session(path, portable=True).run(None, {"ids": ids, "features": features})
    expected = program.run(*program.example_inputs)
    np.testing.assert_allclose(logits, expected[0].numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(padded, expected[1].numpy())


def all_levels(with_library: int, without: int) -> list[Optimized]:
    sides = ((True, with_library), (False, without))
    return [Optimized(level, library, nodes, 0) for level in LEVELS for library, nodes in sides]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (all_levels(2, 0), "passed"),
        (all_levels(0, 0), "failed"),  # a library without operators: the body ran
        (all_levels(1, 0), "failed"),
        (all_levels(2, 2), "failed"),
        ([*all_levels(2, 0), Optimized("all", False, 0, 0, "cannot be opened")], "failed"),
    ],
)
def test_kernel_check_distinguishes_kernel_and_body(originals, found, status):
    assert kernel_check(ExportedModel(originals["never"].path), found).status == status
