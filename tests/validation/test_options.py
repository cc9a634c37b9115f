"""Tolerances as they are written on the command line."""

import pytest

from edge_embed.errors import BadInputError
from edge_embed.validation.options import DEFAULT_RTOL, HALF_RTOL, Tolerance, ValidationOptions


def test_tolerance_number_is_for_all_outputs_and_name_for_one():
    tolerance = Tolerance.parse(["1e-3", "logits:0.5", "a:b:2"])
    assert tolerance.of("anything") == 1e-3
    assert tolerance.of("logits") == 0.5
    assert tolerance.of("a:b") == 2.0
    assert Tolerance.parse([]).or_else(1e-5).of("anything") == 1e-5
    assert tolerance.or_else(1e-5) == tolerance


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "logits:", ":1", "logits:-1"])
def test_invalid_tolerance_is_refused(text):
    with pytest.raises(BadInputError, match="tolerance"):
        Tolerance.parse([text])


def test_command_line_options_become_validation_options():
    options = ValidationOptions.parse(["logits:1"], [], seed=1, iterations=2, warmup=3)
    assert (options.atol.by_output["logits"], options.rtol.default) == (1.0, None)
    assert (options.seed, options.iterations, options.warmup) == (1, 2, 3)


def test_tolerances_by_default_follow_weights():
    options = ValidationOptions(atol=Tolerance.parse(["0.25"]))
    for half, rtol in ((False, DEFAULT_RTOL), (True, HALF_RTOL)):
        chosen = options.for_weights(half)
        assert (chosen.atol.of("any"), chosen.rtol.of("any")) == (0.25, rtol)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"iterations": -1}, {"warmup": 1.5}])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(BadInputError, match=next(iter(wrong))):
        ValidationOptions(**wrong)
