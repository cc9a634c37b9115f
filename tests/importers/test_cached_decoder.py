"""Decoders of transformers folders: step by step they generate the tokens that transformers generates."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray

import edge_embed
from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.lowering.graph import lower_program
from edge_embed.program.load import rewrite_program
from edge_embed.program.program import Program

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

SMALL = {"vocab_size": 300, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
WORDS = "model.embed_tokens"
LENGTH = 64
LONG = "qwen3", "phi3"  # shapes that take minutes with the others
PROMPT = [[5, 17, 299, 1, 8]]
PADDED = [[2, 2, 2, 17, 200], [5, 17, 299, 1, 8]], [[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]]
Step = Callable[[dict[str, NDArray[Any]]], list[NDArray[Any]]]


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, hidden_size=32, num_key_value_heads=1))


def gpt2() -> Any:
    sizes = {"vocab_size": 300, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 128}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def mamba() -> Any:
    sizes = {"vocab_size": 300, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 1}
    return transformers.MambaForCausalLM(transformers.MambaConfig(**sizes))


def saved(make: Callable[[], Any], folder: Path) -> Any:
    torch.manual_seed(0)
    made = make()
    with torch.no_grad():  # the next token depends on all tokens before
        for name, weight in made.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.05 if any(part in name for part in ("embed", "wte", "lm_head")) else 0.4)
    made.save_pretrained(folder)
    return reference(folder)


def reference(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def expected_tokens(model: Any, prompt: Any, mask: Any = None, length: int = LENGTH) -> list[list[int]]:
    """Return the new tokens that transformers generates by greedy search."""
    ids = torch.tensor(prompt)
    given = torch.ones_like(ids) if mask is None else torch.tensor(mask)
    sizes = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": False, "pad_token_id": 2}
    model.generation_config.eos_token_id = None
    found: list[list[int]] = model.generate(input_ids=ids, attention_mask=given, **sizes)[:, ids.shape[1] :].tolist()
    return found


def generated(step: Step, program: Program, prompt: Any, mask: Any = None, length: int = LENGTH) -> list[list[int]]:
    """Return the tokens of greedy search through calls of one token, from a prompt without earlier tokens."""
    ids = np.array(prompt)
    given = np.ones_like(ids) if mask is None else np.array(mask)
    past = {
        each.name: np.zeros(each.sizes({"batch_size": len(ids), "past_sequence_length": 0}), np.float32)
        for each in program.inputs[2:]
    }
    tokens = []
    for _ in range(length):
        logits, *present = step({"input_ids": ids, "attention_mask": given, **past})
        ids = logits[:, -1].argmax(-1)[:, None]
        tokens.append(ids[:, 0])
        given = np.concatenate([given, np.ones_like(ids)], 1)
        past = dict(zip(past, present, strict=True))
    return np.stack(tokens, 1).tolist()  # type: ignore[no-any-return]


def step_of(program: Program) -> Step:
    def step(feeds: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        return [value.numpy() for value in program.run(*(torch.from_numpy(value) for value in feeds.values()))]

    return step


@pytest.mark.slow
@pytest.mark.parametrize("make", [llama, gpt2])
def test_decoder_with_padded_prompts_generates_tokens_of_transformers(make: Callable[[], Any], tmp_path: Path) -> None:
    model = saved(make, tmp_path)
    program = workflow.load(tmp_path)
    found = generated(step_of(program), program, *PADDED, 24)
    assert found == expected_tokens(model, *PADDED, 24)
    assert len({token for row in found for token in row}) > 8


@pytest.mark.slow
def test_decoder_has_names_of_optimum_also_after_rewriting(tmp_path: Path) -> None:
    saved(llama, tmp_path / "model")
    program = rewrite_program(workflow.load(tmp_path / "model"), tmp_path / "model.pt")
    state = ("batch_size", 1, "past_sequence_length", 16)
    states = ["0.key", "0.value"]
    assert {each.name: each.shape for each in program.inputs} == {
        "input_ids": ("batch_size", "sequence_length"),
        "attention_mask": ("batch_size", "past_sequence_length + sequence_length"),
        **{f"past_key_values.{name}": state for name in states},
    }
    assert program.output_names == ("logits", *(f"present.{name}" for name in states))
    assert program.run(*program.example_inputs)[0].shape == (2, 1, 300)
    assert "model.embed_tokens.weight" in dict(program.module.named_buffers())


@pytest.mark.slow
def test_decoder_without_cache_returns_logits_of_all_positions(tmp_path: Path) -> None:
    model = saved(llama, tmp_path)
    program = workflow.load(tmp_path, cache=False)
    assert [each.name for each in program.inputs] == ["input_ids", "attention_mask"]
    ids = torch.tensor(PROMPT)
    torch.testing.assert_close(program.run(ids, torch.ones_like(ids))[0], model(ids).logits)


@pytest.mark.slow
def test_model_without_keys_and_values_is_read_without_cache(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mamba().save_pretrained(tmp_path)
    program = workflow.load(tmp_path)
    assert not any("past" in each.name for each in program.inputs)
    assert program.inputs[0].shape[0] == "batch"


def test_option_no_cache_for_other_file_is_refused_with_remedy(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a 1 2\nb 3 4\n")
    with pytest.raises(BadInputError, match=r"--no-cache: got .*words.txt, expected the folder of a transformers"):
        workflow.load(tmp_path / "words.txt", cache=False)
    with pytest.raises(BadInputError, match="--no-cache: got a Linear, expected the folder"):
        workflow.load(torch.nn.Linear(1, 1), torch.zeros(1, 1), cache=False)
    given = ["compress", str(tmp_path / "words.txt"), "-o", str(tmp_path / "small.pt"), "--ratio", "2", "--no-cache"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert "leave it out" in done.output
    assert not (tmp_path / "small.pt").exists()


@pytest.mark.parametrize("options", [["--no-cache"], []])
@pytest.mark.parametrize("command", [["compress", "-o", "small.pt"], ["export", "--target", "onnx"]])
def test_option_no_cache_of_command_line_reaches_reader(
    command: list[str], options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool] = []

    def load(model: Path, *, cache: bool, **others: Any) -> Any:
        given.append(cache)
        raise BadInputError("seen")

    monkeypatch.setattr(workflow, "load", load)
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(main, [*command, *options, "model"])
    assert given == [not options]


def narrow_window(folder: Path) -> None:
    """Change a model so that generation passes its window, and does not repeat one token."""
    model = reference(folder)
    model.config.sliding_window, model.config.layer_types = 16, ["sliding_attention", "full_attention"]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "q_norm" in name or "k_norm" in name:
                weight.add_(2)
        model.get_input_embeddings().weight.mul_(0.1)
    model.save_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["llama", "gemma3", *(pytest.param(each, marks=pytest.mark.long) for each in LONG)])
def test_compressed_decoder_generates_tokens_of_transformers(shape: str, tmp_path: Path) -> None:
    from tests.genai.build_folders import ROWS, write_model

    folder, exported = tmp_path / "model", tmp_path / "small.onnx"
    write_model(folder, shape, is_tied=True)
    if shape == "gemma3":
        narrow_window(folder)
    program, _ = workflow.compress(folder, "dpq", num_codes=64, num_groups=64, modules=[WORDS])
    assert isinstance(program, Program)
    edge_embed.export(program, "onnx", exported, open=False)
    model = reference(folder)
    with torch.no_grad():
        rows = lower_program(program).tables[WORDS].rows(range(ROWS))
        model.get_input_embeddings().weight.copy_(torch.from_numpy(rows))
    expected = expected_tokens(model, PROMPT)
    assert len(set(expected[0])) >= 20
    expected_padded = expected_tokens(model, *PADDED)
    for portable in (False, True):
        step = partial(edge_embed.create_session(exported, portable).run, None)
        assert generated(step, program, PROMPT) == expected
        assert generated(step, program, *PADDED) == expected_padded
