"""``--input name:type[sizes]`` and the example inputs made from it."""

import pytest
import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.program.input_spec import make_examples, parse_input
from edge_embed.program.program import ProgramInput


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ids:int64[batch,seq]", ProgramInput("ids", torch.int64, ("batch", "seq"))),
        ("x:float32[batch,16]", ProgramInput("x", torch.float32, ("batch", 16))),
        ("step:int64[]", ProgramInput("step", torch.int64, ())),
        (" mask:bool[ batch , 4 ] ", ProgramInput("mask", torch.bool, ("batch", 4))),
    ],
)
def test_input_option_is_parsed(text: str, expected: ProgramInput) -> None:
    assert parse_input(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "ids", "ids:int64", "ids:int64[", "ids:int64[batch]x", ":int64[b]", "1x:int64[b]", "ids:int65[b]",
     "ids:complex64[b]", "ids:int64[0]", "ids:int64[-1]", "ids:int64[1.5]", "ids:int64[a b]", "ids:int64[,]",
     "ids:int64[b,]", "ids:int64[9999999999]", "ids:int64[[b]]", "ids int64[b]", "ïds:int64[b]", "ids:int64[²]",
     "ids:__class__[b]", "ids:int64[b]\n:"],
)  # fmt: skip
def test_invalid_input_option_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="--input"):
        parse_input(text)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = DPQEmbedding(500, 8, 5, 2), nn.Embedding(7, 8)

    def forward(self, ids: Tensor, x: Tensor, flag: Tensor | None = None) -> Tensor:
        return self.large(ids) + self.small(ids) + x  # type: ignore[no-any-return]


def specs(*texts: str) -> list[ProgramInput]:
    return [parse_input(text) for text in texts]


def test_examples_fit_model_and_are_not_zero() -> None:
    wanted = specs("ids:int32[batch,words]", "x:float16[batch,words,8]", "flag:bool[words]")
    examples = make_examples(Two(), wanted)
    ids, x, flag = (examples[name] for name in ("ids", "x", "flag"))
    assert ids.dtype == torch.int32
    assert x.dtype == torch.float16
    assert 1 <= int(ids.min()) <= int(ids.max()) < 7, "ids fit the smallest table"
    assert x.shape == (*ids.shape, 8)
    assert flag.dtype == torch.bool
    assert len({*ids.shape, 8}) == 3, "sizes that are free differ, and from the fixed ones"
    assert min(ids.shape) >= 2
    again = make_examples(Two(), wanted)
    assert all(torch.equal(examples[name], again[name]) for name in examples), "seeded"


def test_example_that_is_too_large_is_refused() -> None:
    with pytest.raises(BadInputError, match="elements, expected at most"):
        make_examples(Two(), specs("ids:int64[99999,99999]", "x:float32[8]"))


def test_unknown_and_missing_names_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"got ids, expected the arguments of Two.forward: ids, x, flag\."):
        make_examples(Two(), specs("ids:int64[b]"))
