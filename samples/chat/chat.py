"""Chats in the terminal with an exported decoder: ONNX Runtime, and the tokenizer and template of its folder.

Usage: python samples/chat/chat.py chat.onnx chat
       python samples/chat/chat.py --genai FOLDER
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import edge_embed

Messages = list[dict[str, str]]
Reply = Callable[[Messages], Iterator[str]]  # yields parts of the text
_PAST, _PRESENT = "past_key_values.", "present."


class Decoder:
    """Session over an exported decoder that takes and returns keys and values.

    Args:
        path: the ``.onnx`` file.
        portable: leave the operator library out.
    """

    def __init__(self, path: Path, portable: bool = False) -> None:
        self._session = edge_embed.create_session(path, portable)
        self._states = {each.name: each.shape for each in self._session.get_inputs() if each.name.startswith(_PAST)}
        if not self._states:
            remedy = "export the folder of a decoder, without --no-cache"
            raise click.UsageError(f"{path}: got no inputs {_PAST}*, expected keys and values: {remedy}")

    def tokens(self, prompt: list[int], choose: Callable[[NDArray[Any]], int]) -> Iterator[int]:
        """Yield new tokens without end: one call for the prompt, then one for each token."""
        ids, length = np.array([prompt]), len(prompt)
        past = {name: np.zeros((1, shape[1], 0, shape[3]), np.float32) for name, shape in self._states.items()}
        outputs = ["logits", *(name.replace(_PAST, _PRESENT) for name in past)]
        while True:
            mask = np.ones((1, length), np.int64)
            logits, *present = self._session.run(outputs, {"input_ids": ids, "attention_mask": mask, **past})
            past = dict(zip(past, present, strict=True))
            token = choose(logits[0, -1])
            yield token
            ids, length = np.array([[token]]), length + 1


def sampler(temperature: float, seed: int) -> Callable[[NDArray[Any]], int]:
    """Return a function that selects a token by its logits: the best, or at random."""
    random = np.random.default_rng(seed)

    def choose(logits: NDArray[Any]) -> int:
        if not temperature:
            return int(logits.argmax())
        chances = np.exp((logits - logits.max()).astype(np.float64) / temperature)
        return int(random.choice(len(chances), p=chances / chances.sum()))

    return choose


def with_onnxruntime(decoder: Decoder, folder: Path, choose: Callable[[NDArray[Any]], int], length: int) -> Reply:
    """Return the replies of an exported file; ``folder`` has the tokenizer and the template."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.chat_template:
        raise click.UsageError(f"{folder}: got no chat template, expected chat_template.jinja: add it to the folder")
    ends = _ends(folder) | {tokenizer.eos_token_id}

    def reply(messages: Messages) -> Iterator[str]:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompt, new, shown = tokenizer.encode(text, add_special_tokens=False), [], ""
        for token, _ in zip(decoder.tokens(prompt, choose), range(length), strict=False):
            if token in ends:
                break
            new.append(token)
            whole = tokenizer.decode(new, skip_special_tokens=True)
            if not whole.endswith("\ufffd"):  # a part of a character
                yield whole[len(shown) :]
                shown = whole
        yield tokenizer.decode(new, skip_special_tokens=True)[len(shown) :]

    return reply


def _ends(folder: Path) -> set[int]:
    """Return the tokens that end a reply, of ``generation_config.json``."""
    path = folder / "generation_config.json"
    found: Any = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id") if path.is_file() else None
    return set(found) if isinstance(found, list) else {found}


def with_genai(folder: Path, temperature: float, seed: int, length: int) -> Reply:
    """Return the replies of a folder of ONNX Runtime GenAI."""
    import onnxruntime_genai  # noqa: PLC0415

    model = onnxruntime_genai.Model(str(folder))
    tokenizer = onnxruntime_genai.Tokenizer(model)
    search = {"do_sample": True, "temperature": temperature, "random_seed": seed} if temperature else {}

    def reply(messages: Messages) -> Iterator[str]:
        prompt = tokenizer.encode(tokenizer.apply_chat_template(json.dumps(messages), add_generation_prompt=True))
        settings = onnxruntime_genai.GeneratorParams(model)
        settings.set_search_options(**{"do_sample": False, **search}, max_length=len(prompt) + length)
        generator, stream = onnxruntime_genai.Generator(model, settings), tokenizer.create_stream()
        generator.append_tokens(prompt)
        while not generator.is_done():
            generator.generate_next_token()
            token = generator.get_next_tokens()[0]
            if token not in tokenizer.eos_token_ids:
                yield stream.decode(token)

    return reply


def chat(reply: Reply) -> None:
    """Read messages line by line until an empty one, and print the reply to each."""
    messages: Messages = []
    while said := click.prompt("you", default="", show_default=False):
        messages.append({"role": "user", "content": said})
        parts = []
        for part in reply(messages):
            click.echo(part, nl=False)
            parts.append(part)
        click.echo()
        messages.append({"role": "assistant", "content": "".join(parts)})


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), required=False)
@click.option("--genai", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of GenAI instead.")
@click.option("--temperature", type=click.FloatRange(min=0), default=0, show_default=True, help="0 is greedy.")
@click.option("--seed", default=0, show_default=True, help="Random seed, with a temperature.")
@click.option("--length", type=click.IntRange(min=1), default=256, show_default=True, help="Most tokens of a reply.")
@click.option("--portable", is_flag=True, help="MODEL: leave the operator library out.")
def main(
    model: Path | None,
    folder: Path | None,
    genai: Path | None,
    temperature: float,
    seed: int,
    length: int,
    portable: bool,
) -> None:
    """Chat with the exported MODEL; FOLDER is that of transformers, with tokenizer and chat template."""
    if genai is not None:
        if model is not None or portable:
            raise click.UsageError("got --genai and MODEL or --portable, expected one model: leave the others out")
        return chat(with_genai(genai, temperature, seed, length))
    if model is None or folder is None:
        raise click.UsageError("got no MODEL and FOLDER: give both, or --genai FOLDER")
    return chat(with_onnxruntime(Decoder(model, portable), folder, sampler(temperature, seed), length))


if __name__ == "__main__":
    main()
