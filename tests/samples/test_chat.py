"""The chat sample replies alike with ONNX Runtime and with ONNX Runtime GenAI."""

import copy
from pathlib import Path

import numpy as np
import pytest
from chat.chat import main
from click.testing import CliRunner, Result

from tests.genai.folders import CONFIG, DIM, made_folder, write_decoder

pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is missing: pip install 'edge-embed[genai]'")
transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

SPECIAL = ["<s>", "</s>", "<pad>"]
TEMPLATE = "{% for message in messages %}{{ message['role'] }}:{{ message['content'] }};{% endfor %}assistant:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of both kinds, whose tokens are printable characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    config = copy.deepcopy(CONFIG)
    letters = [*SPECIAL, "Ġ", *map(chr, range(ord("!"), ord("~") + 1))]
    config["model"]["vocab_size"] = len(letters)
    path = made_folder(tmp_path_factory.mktemp("chat") / "model", config)
    rows = 0.6 * np.random.default_rng(0).standard_normal((len(letters), DIM))  # a larger factor repeats two tokens
    write_decoder(path / "model.onnx", rows.astype(np.float32))
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(path)
    return path


def run(*options: str | Path) -> Result:
    return CliRunner().invoke(main, ["--length", "12", *map(str, options)], input="Hello there\nMore\n\n")


def test_chat_replies_alike_with_onnxruntime_and_genai(folder: Path) -> None:
    plain = run(folder / "model.onnx", folder)
    assert plain.exit_code == 0, plain.output
    replies = [reply.partition("\n")[2] for reply in plain.stdout.split("you: ")[1:3]]
    assert all(len(set(reply.strip())) > 3 for reply in replies)
    assert replies[0] != replies[1]
    genai = run("--genai", folder)
    assert genai.exit_code == 0, genai.output
    assert genai.stdout == plain.stdout


def test_chat_with_temperature_repeats_by_seed(folder: Path) -> None:
    first, second, other = (
        run(folder / "model.onnx", folder, "--temperature", "1.5", "--seed", seed, "--portable").stdout
        for seed in ("1", "1", "2")
    )
    assert first == second != other


def test_chat_without_model_states_remedy(folder: Path) -> None:
    assert "give both, or --genai FOLDER" in run().stderr
    assert "leave the others out" in run(folder / "model.onnx", folder, "--genai", folder).stderr
