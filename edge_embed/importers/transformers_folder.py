"""Folder of a transformers model, ``config.json`` and safetensors: read without the network, and without its code.

The class is the one that the configuration names. The inputs are ``input_ids`` and ``attention_mask``, and
``decoder_input_ids`` for an encoder with a decoder; models that generate also have keys and values of earlier tokens
(`edge_embed.importers.cached_decoder`, `edge_embed.importers.cached_encoder_decoder`). Weights become float32,
which every runtime supports.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.importers.cached_decoder import with_cache
from edge_embed.importers.cached_encoder_decoder import with_encoder_cache
from edge_embed.importers.cached_form import CachedForm
from edge_embed.importers.folder_left_out import folder_left_out
from edge_embed.importers.tokenizer_ids import check_ids
from edge_embed.importers.transformers_loaded import check_loaded
from edge_embed.importers.transformers_size import bounded, check_files
from edge_embed.program.load import capture_program
from edge_embed.program.program import Program
from edge_embed.quiet import silence
from edge_embed.report.results.model_source import SourceFacts

_CONFIG = "config.json"
_EXAMPLE = (2, 8)  # ids
_IDS = "input_ids"
_DIMENSIONS = {  # inputs that a model may have; it runs without other ones
    _IDS: ("batch", "sequence"),
    "attention_mask": ("batch", "sequence"),
    "decoder_input_ids": ("batch", "decoder_sequence"),
}
_AGAIN = "save the whole model with its save_pretrained"
_OWN = "create the module and pass it to edge_embed.save"
_INSTALL = 'pip install "edge-embed[transformers]"'


def is_transformers(folder: Path) -> bool:
    """Return whether a folder may contain a model."""
    return (folder / _CONFIG).is_file()


def read_transformers(folder: Path, cache: bool = True) -> Program:
    """Trace the model of a folder; its tables keep their names in the model.

    Args:
        folder: the folder.
        cache: whether a model that keeps keys and values gets those of earlier tokens as inputs, and returns logits
            of the last position only.

    Raises:
        BadInputError: the folder is damaged or incomplete, or its model has a class outside transformers, has weights
            that another library quantised, has no ids as input, or cannot be traced. Also: with ``cache``, an encoder
            with a decoder keeps other states.
        EdgeEmbedError: the library `transformers` is not installed.
    """
    model = load_model(folder)
    accepted = inspect.signature(model.forward).parameters
    if _IDS not in accepted:
        raise BadInputError(f"{type(model).__name__} has no input {_IDS}, expected a text model: {_OWN}")
    examples = {name: example for name, example in _examples(model).items() if name in accepted}
    with _refused():
        cached = _cached(model.eval(), examples) if cache else None
    program = _without_cache(model, examples) if cached is None else _with_cache(model, cached)
    program.source = folder
    program.facts = SourceFacts(left_out=folder_left_out(folder))
    return program


def _cached(model: Any, examples: Mapping[str, Tensor]) -> CachedForm | None:
    if model.config.is_encoder_decoder:
        return with_encoder_cache(model, examples)
    return with_cache(model, examples[_IDS])


def _with_cache(model: nn.Module, form: CachedForm) -> Program:
    dynamic = {name: dict.fromkeys(dimensions, Dim.AUTO) for name, dimensions in form.dimensions.items()}
    try:
        program = capture_program(
            model,
            form.examples,
            dynamic,
            dimension_names=form.dimensions,
            output_names=form.outputs,
            input_names=form.inputs,
        )
    except BadInputError as error:
        raise BadInputError(f"{error}; without keys and values as inputs it may work: give --no-cache") from error
    form.check(program)
    return program


def _without_cache(model: nn.Module, examples: dict[str, Tensor]) -> Program:
    names = {name: dict(enumerate(_DIMENSIONS[name])) for name in examples}
    dynamic = {name: dict.fromkeys(dimensions, Dim.AUTO) for name, dimensions in names.items()}
    outputs = _output_names(model, examples)
    return capture_program(model, examples, dynamic, dimension_names=names, output_names=outputs)


def load_model(folder: Path) -> nn.Module:
    """Return the module with its weights.

    Raises:
        BadInputError: as `read_transformers`, without the errors of tracing.
        EdgeEmbedError: as `read_transformers`.
    """
    try:
        with silence():  # also of the packages that it searches for
            import transformers  # noqa: PLC0415
    except ImportError as error:
        raise EdgeEmbedError(f"needs the package transformers, which is not installed: {_INSTALL}") from error
    if not any(folder.glob("*.safetensors")):
        if graphs := sorted(path.name for path in folder.glob("*.onnx")):
            raise BadInputError(f"has no .safetensors file, but {graphs[0]:.80}: give that file, or {_AGAIN}")
        raise BadInputError(f"has no .safetensors file; other files may run code and are not read: {_AGAIN}")
    stored = check_files(folder)
    with silence(), _refused():
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        dense = _compressed_numbers(config)
    with silence(), _refused(), bounded(replace(stored, numbers=stored.numbers + dense)):
        model, loaded = _class_of(transformers, config).from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="eager",
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # its own error refers to a report
            output_loading_info=True,
        )
    check_loaded(folder, model, loaded, stored.integers)
    rows = getattr(model.config.get_text_config(), "vocab_size", None)
    if isinstance(rows, int):
        check_ids(folder, rows, f"{_CONFIG}: vocab_size")
    made: nn.Module = model
    for module in made.modules():
        own = getattr(module, "config", None)
        if isinstance(own, transformers.PreTrainedConfig):
            own.use_cache = False  # a cache from one token to the next is not an output
    return made


def _compressed_numbers(config: Any) -> int:
    """Return the numbers of compressed tables as dense ones, and let transformers load such tables.

    Raises:
        BadInputError: the weights are quantised by another library, or the tables are not described as they should be.
    """
    content = getattr(config, "quantization_config", None)
    if content is None:
        return 0
    from edge_embed.transformers.config import METHOD, EdgeEmbedConfig  # noqa: PLC0415
    from edge_embed.transformers.quantizer import EdgeEmbedQuantizer  # noqa: F401, PLC0415 - registers itself

    method = content.get("quant_method") if isinstance(content, dict) else content
    if method != METHOD:
        raise BadInputError(f"{_CONFIG}: got quantised weights, expected floats: give the model before quantisation")
    shapes = [table.entry.shape for table in EdgeEmbedConfig(**content).stored_tables().values()]
    return sum(shape.num_embeddings * shape.embedding_dim for shape in shapes)


def _class_of(transformers: Any, config: Any) -> Any:
    """Return the class of the model; without a class in the configuration, the one for hidden states."""
    if not config.architectures:
        return transformers.AutoModel
    name = config.architectures[0] if isinstance(config.architectures, list) else None
    if not isinstance(name, str):
        raise BadInputError(f"{_CONFIG}: architectures: got {config.architectures!r:.100}, expected a list of names")
    found = getattr(transformers, name, None)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        expected = f"expected a class of transformers {transformers.__version__}"
        raise BadInputError(f"{_CONFIG}: got the model class {name:.100}, {expected}: {_OWN}")
    config_class = getattr(found, "config_class", None)
    if config_class is not None and not isinstance(config, config_class):
        raise BadInputError(
            f"{_CONFIG}: got the model class {name:.100} of model_type {config_class.model_type!r:.80}, but "
            f"model_type {config.model_type!r:.80}: {_AGAIN}"
        )
    return found


def _examples(model: Any) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.get_text_config().vocab_size, _EXAMPLE, generator=generator)
    examples = {_IDS: ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        examples["decoder_input_ids"] = ids[:, : _EXAMPLE[1] // 2]
    return examples


def _output_names(model: nn.Module, examples: dict[str, Tensor]) -> list[str]:
    with torch.no_grad(), _refused():
        return [name for name, value in model.eval()(**examples).items() if isinstance(value, Tensor)]


@contextmanager
def _refused() -> Iterator[None]:
    """Turn the library's errors about a damaged folder into one of ours."""
    try:
        yield
    except BadInputError:
        raise
    except Exception as error:  # also of its dependencies
        reason = f"{type(error).__name__}: {' '.join(str(error).split()):.400}"
        raise BadInputError(f"transformers cannot load it ({reason}): check its files, {_AGAIN}, or {_OWN}") from error
