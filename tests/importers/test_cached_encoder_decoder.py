"""Encoder-decoder folders: step by step they generate the tokens that transformers generates."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.importers.cached_encoder_decoder import with_encoder_cache
from edge_embed.lowering.graph import lower_program
from edge_embed.program.program import Program

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

ROWS, LENGTH = 300, 24
LETTERS = [[5, 17, 299, 7, 8, 9], [12, 13, 200, 250, 7, 7], [40, 41, 42, 43, 44, 45], [100, 3, 3, 3, 7, 7]]
MASK = [[1] * 6, [1] * 4 + [0] * 2, [1] * 6, [1] * 4 + [0] * 2]
IDS = torch.tensor(LETTERS)
STD = {"position": 6, "relative": 6, "shared": 0.3, "embed_tokens": 0.3, ".wi.": 0.1, ".wo.": 0.1, "fc": 0.1}


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=ROWS, decoder_start_token_id=0, **sizes)
    )


def bart() -> Any:
    kinds = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}
    sizes = {f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in kinds.items()}
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=ROWS, d_model=32, max_position_embeddings=64, **sizes)
    )


def prophetnet() -> Any:
    sizes = {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    sizes |= {f"num_{part}_{name}": 1 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    return transformers.ProphetNetForConditionalGeneration(
        transformers.ProphetNetConfig(vocab_size=ROWS, hidden_size=32, **sizes)
    )


def saved(make: Callable[[], Any], folder: Path) -> Any:
    """Save a model whose next token depends on the source and on all tokens before."""
    torch.manual_seed(0)
    made = make()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0, next((std for part, std in STD.items() if part in name), 0.5))
    made.save_pretrained(folder)
    return type(made).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def expected_tokens(model: Any) -> list[list[int]]:
    """Return the new tokens that transformers generates by greedy search."""
    settings = model.generation_config
    settings.eos_token_id = settings.forced_eos_token_id = settings.forced_bos_token_id = None
    found: list[list[int]] = model.generate(
        input_ids=IDS, attention_mask=torch.tensor(MASK), max_new_tokens=LENGTH, do_sample=False, num_beams=1
    )[:, 1:].tolist()
    return found


def generated(session: Any, start: int) -> list[list[int]]:
    """Return the tokens of greedy search; only the first call gets the source."""
    states = session.get_inputs()[3:]
    past = {each.name: np.zeros((len(LETTERS), each.shape[1], 0, each.shape[3]), np.float32) for each in states}
    source, new = np.array(LETTERS), np.full((len(LETTERS), 1), start)
    tokens: list[NDArray[Any]] = []
    for _ in range(LENGTH):
        given = {"input_ids": source, "attention_mask": np.array(MASK), "decoder_input_ids": new}
        logits, *present = session.run(None, {**given, **past})
        source, past, new = source[:, :0], dict(zip(past, present, strict=True)), logits[:, -1:].argmax(-1)
        tokens.append(new[:, 0])
    return np.stack(tokens, 1).tolist()  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "table"), [(t5, "shared"), pytest.param(bart, "model.shared", marks=pytest.mark.long)]
)
def test_compressed_encoder_decoder_generates_tokens_of_transformers(
    make: Callable[[], Any], table: str, tmp_path: Path
) -> None:
    model, exported = saved(make, tmp_path / "model"), tmp_path / "small.onnx"
    program, _ = workflow.compress(tmp_path / "model", "dpq", num_codes=64, num_groups=32, modules=[table])
    assert isinstance(program, Program)
    report = edge_embed.export(program, "onnx", exported, open=False)
    assert {each.name: each.uses for each in report.tables}[table] == 3  # encoder, decoder and head share one table
    with torch.no_grad():
        rows = lower_program(program).tables[table].rows(range(ROWS))
        model.get_input_embeddings().weight.copy_(torch.from_numpy(rows))
    expected = expected_tokens(model)
    assert len({token for row in expected for token in row}) >= 10
    assert len({*map(tuple, expected)}) == len(expected)
    for portable in (False, True):
        session = edge_embed.create_session(exported, portable)
        assert generated(session, model.config.decoder_start_token_id) == expected


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Program]:
    """Return a model and the program of its folder."""
    folder = tmp_path_factory.mktemp("t5")
    return saved(t5, folder), workflow.load(folder)


@pytest.mark.slow
def test_encoder_decoder_has_names_of_optimum_for_keys_and_values(small: tuple[Any, Program]) -> None:
    _, program = small
    source, target = "past_encoder_sequence_length", "past_decoder_sequence_length"
    lengths = {"decoder.key": target, "decoder.value": target, "encoder.key": source, "encoder.value": source}
    assert {each.name: each.shape for each in program.inputs} == {
        "input_ids": ("batch_size", "encoder_sequence_length"),
        "attention_mask": ("batch_size", "past_encoder_sequence_length + encoder_sequence_length"),
        "decoder_input_ids": ("batch_size", "decoder_sequence_length"),
        **{f"past_key_values.0.{name}": ("batch_size", 2, length, 16) for name, length in lengths.items()},
    }
    assert program.output_names == ("logits", *(f"present.0.{name}" for name in lengths))


@pytest.mark.slow
def test_calls_without_source_have_logits_of_whole_sequence(small: tuple[Any, Program]) -> None:
    model, program = small
    mask, new = torch.tensor(MASK), IDS[:, :5]
    with torch.no_grad():
        expected = model(input_ids=IDS, attention_mask=mask, decoder_input_ids=new).logits
    states = [torch.zeros(len(IDS), 2, 0, 16)] * 4
    for source, begin, end in ((IDS, 0, 2), (IDS[:, :0], 2, 3), (IDS[:, :0], 3, 5)):
        logits, *states = program.run(source, mask, new[:, begin:end], *states)
        torch.testing.assert_close(logits[:, 0], expected[:, end - 1], atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_encoder_decoder_with_other_logits_is_refused_with_remedy(small: tuple[Any, Program]) -> None:
    model, program = small

    class Forgetful(Program):
        """Program that does not use the keys and values of the decoder."""

        def run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            states = [
                state if "encoder" in each.name else 0 * state for each, state in zip(self.inputs, inputs, strict=True)
            ]
            return super().run(*inputs[:3], *states[3:])

    form = with_encoder_cache(copy.deepcopy(model), {"input_ids": IDS[:2], "decoder_input_ids": IDS[:2, :4]})
    assert form is not None
    form.check(program)
    fields = {each.name: getattr(program, each.name) for each in dataclasses.fields(Program)}
    with pytest.raises(BadInputError, match=r"T5ForConditionalGeneration with keys.*logits that differ.*--no-cache"):
        form.check(Forgetful(**fields))


def test_model_with_other_states_is_refused_with_remedy() -> None:
    model = t5().eval()
    forward = model.forward
    model.forward = lambda **given: {**forward(**given), "past_key_values": None}
    with pytest.raises(BadInputError, match=r"got a NoneType as past_key_values, expected .*; give --no-cache"):
        with_encoder_cache(model, {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]})


@pytest.mark.slow
def test_kind_that_cannot_be_traced_with_cache_is_refused_and_nothing_written(tmp_path: Path) -> None:
    prophetnet().save_pretrained(tmp_path / "model")
    with pytest.raises(BadInputError, match=r"ProphetNet\w+ cannot be traced .*give --no-cache"):
        workflow.compress(tmp_path / "model", ratio=2, output=tmp_path / "small.pt")
    assert [each.name for each in tmp_path.iterdir()] == ["model"]
