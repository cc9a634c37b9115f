"""`samples/defaults.py`: its tables match their labels, its figures are differences within a seed."""

from pathlib import Path

import defaults
import pytest
import torch

README = Path(__file__).parents[2] / "samples" / "ag_news" / "README.md"
CASES = [(method, option) for method, options in defaults.TABLES.items() for option in options]


@pytest.mark.parametrize(("method", "option"), CASES)
def test_bags_of_each_option_have_width_of_classifier(method: str, option: str) -> None:
    torch.manual_seed(0)
    table = defaults.TABLES[method][option](50)
    assert table(torch.tensor([[1, 2, 0], [3, 0, 0]])).shape == (2, defaults.WIDTH)
    name, _, value = option.partition("=")
    if value:
        assert str(getattr(table, name)) in (value, str(float(value)) if value[0].isdigit() else value)


def test_initial_anchors_of_ant_options_differ() -> None:
    default, above, large = (
        make(50).anchors.detach() for make in defaults.TABLES["ant, A = 10"].values()
    )  # fmt: skip
    assert (default < 0).any()
    assert (above >= 0).all()
    assert large.std() > 2 * default.std()


def test_differences_are_taken_within_a_seed() -> None:
    score, least, difference = defaults._figures([0.80, 0.91], [0.79, 0.90])
    assert (score.split()[0], least, difference.split()[0]) == ("0.855", "0.8", "+0.01")
    assert defaults._figures([0.80, 0.91], [0.80, 0.91])[2] == ""


def test_readme_gives_command_of_defaults() -> None:
    assert "python samples/defaults.py --data FOLDER" in README.read_text(encoding="utf-8")
