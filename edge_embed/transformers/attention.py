"""Sparse attention in models of Hugging Face transformers, by their attention interface.

    model.set_attn_implementation("entmax15")       "sparsemax"; "entmax" with learned alphas

The import registers these names, also for ``from_pretrained(..., attn_implementation="sparsemax")``. It covers models
that use the interface, with causal and sliding masks, and keys that several attention heads share. A query whose keys
are all masked attends to none.

Source: "Adaptively Sparse Transformers" (Correia, Niculae and Martins, EMNLP 2019), section 3.
"""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask
from transformers.utils import output_capturing

from edge_embed.errors import BadInputError, one_line
from edge_embed.files import StrPath
from edge_embed.ops.attention import attention
from edge_embed.ops.entmax import check_alpha

LEARNED = "entmax"
PARAMETER = "alpha_logit"
_RECORDING = "edge_embed_recording"
_UNSUPPORTED = ("softcap", "s_aux")  # what some models pass to change the scores


def register_attention(alpha: float) -> str:
    """Register attention with a fixed alpha, from 1 to 4, and return its name, such as "entmax-1.25".

    Raises:
        BadInputError: for another alpha.
    """
    check_alpha(alpha)
    name = f"entmax-{float(alpha)!r}"
    _register(name, partial(_attend, float(alpha)))
    return name


def learn_alphas(
    model: PreTrainedModel, alpha: float = 1.5, example_inputs: Mapping[str, Any] | None = None
) -> list[str]:
    """Give every attention head a trainable alpha 1 + sigmoid(a), and let the model use them.

    The model runs once, which shows its attention modules. Each gets the parameter ``alpha_logit`` [H], which
    ``save_pretrained`` saves; `load_alphas` restores it after ``from_pretrained``.

    Args:
        model: a model that uses the attention interface.
        alpha: where learning starts, between 1 and 2.
        example_inputs: arguments of one call of the model; ``model.dummy_inputs`` by default.

    Returns:
        Names of the attention modules.

    Raises:
        BadInputError: for another alpha, or a model without modules that use the interface.
    """
    check_alpha(alpha)
    if not 1 < alpha < 2:
        raise BadInputError(f"alpha: got {alpha!r:.80}, expected more than 1 and less than 2 for learned alphas")
    heads = _heads_of(model, example_inputs)
    for name, number in heads.items():
        module = model.get_submodule(name)
        like = next(module.parameters())
        logit = torch.full((number,), math.log((alpha - 1) / (2 - alpha)), dtype=like.dtype, device=like.device)
        module.register_parameter(PARAMETER, nn.Parameter(logit))
    model.set_attn_implementation(LEARNED)
    return list(heads)


def load_alphas(model: PreTrainedModel, folder: StrPath) -> list[str]:
    """Restore the learned alphas that ``save_pretrained`` wrote to a folder, and let the model use them.

    Returns:
        Names of the attention modules.

    Raises:
        BadInputError: if the folder has none, or they fit no module of the model.
    """
    found: dict[str, Tensor] = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        try:
            with safe_open(path, "pt") as file:
                found |= {key: file.get_tensor(key) for key in file.keys() if key.endswith(f".{PARAMETER}")}  # noqa: SIM118
        except SafetensorError as error:
            raise BadInputError(f"{path}: got a damaged file ({one_line(error)}): save the model again") from error
    if not found:
        raise BadInputError(
            f"{folder}: got no tensors named *.{PARAMETER}, expected a folder of a model with learned alphas"
        )
    modules = dict(model.named_modules())
    prefix = f"{model.base_model_prefix}."
    placed = {}
    for key, logit in found.items():
        name = key.removesuffix(f".{PARAMETER}")
        name = next((each for each in (name, name.removeprefix(prefix), prefix + name) if each in modules), "")
        if not name or logit.ndim != 1 or len(logit) != _num_heads(modules[name], logit):
            expected = "expected alphas of a module of the model, one for each of its attention heads"
            raise BadInputError(f"{folder}: got {key} {list(logit.shape)}, {expected}")
        placed[name] = logit
    for name, logit in placed.items():
        like = next(modules[name].parameters())
        modules[name].register_parameter(PARAMETER, nn.Parameter(logit.to(like.device, like.dtype)))
    model.set_attn_implementation(LEARNED)
    return list(placed)


def _num_heads(module: nn.Module, logit: Tensor) -> int:
    """Return the number of attention heads of a module; that of the alphas if it does not tell."""
    for place in (module, getattr(module, "config", None)):
        for name in ("num_heads", "num_attention_heads"):
            if isinstance(number := getattr(place, name, None), int):
                return number
    return len(logit)


def _heads_of(model: PreTrainedModel, example_inputs: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the numbers of attention heads of the modules that call the interface, by name."""
    seen: dict[nn.Module, int] = {}

    def record(module: nn.Module, query: Tensor, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        seen[module] = query.shape[1]
        return _attend(1.5, module, query, *arguments, **options)

    before, was_training = model.config._attn_implementation, model.training
    _register(_RECORDING, record)
    try:
        model.set_attn_implementation(_RECORDING)
        with torch.no_grad():
            _call_once(model.train(False), example_inputs)
    finally:
        model.set_attn_implementation(before)
        model.train(was_training)
    names = {name: seen[module] for name, module in model.named_modules() if module in seen}
    if not names:
        got = f"{type(model).__name__}, which calls no attention of the interface"
        raise BadInputError(f"model: got {got}, expected one that set_attn_implementation can change")
    return names


def _call_once(model: PreTrainedModel, example_inputs: Mapping[str, Any] | None) -> None:
    try:
        model(**(model.dummy_inputs if example_inputs is None else example_inputs))
    except BadInputError:
        raise
    except Exception as error:  # whatever a model does with inputs that are not its own
        got = "model.dummy_inputs" if example_inputs is None else f"inputs {', '.join(example_inputs)}"
        remedy = "such as example_inputs={'pixel_values': images} for images"
        message = f"example_inputs: got {got}, with which {type(model).__name__} fails ({one_line(error)})"
        raise BadInputError(f"{message}, expected arguments of one call, {remedy}") from error


def _attend(
    alpha: float | None,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as the interface requires; query [B, H, T, d], key and value [B, G, S, d] -> [B, T, H, d].

    A position bias [*, H, T, S], such as that of T5, is added to the scores.
    """
    for name in _UNSUPPORTED:
        if options.get(name) is not None:
            raise BadInputError(f"{type(module).__name__} passes {name}, which sparse attention does not support")
    mask = _mask(attention_mask, key.shape[2])
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if mask is None and is_causal and query.shape[2] > 1:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()[None, None]
    if position_bias is not None:
        mask = _biased(position_bias, mask)
    alphas = _alphas_of(module) if alpha is None else alpha
    need_weights = bool(options.get("output_attentions")) or _are_captured()
    out, weights = attention(query, key, value, alphas, mask, scale=scaling, dropout=dropout, need_weights=need_weights)
    return out.transpose(1, 2).contiguous(), weights


def _biased(bias: Tensor, mask: Tensor | None) -> Tensor:
    """Return numbers to add to the scores, [*, H, T, S]: a bias, and minus infinity where the mask excludes a key."""
    if mask is None:
        return bias
    return bias.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else bias + mask


def _are_captured() -> bool:
    """Return whether the model collects probabilities; some models, such as GPT-2, pass no option that says so."""
    collected: Any = output_capturing._active_collector.get()  # type: ignore[no-untyped-call]
    return collected is not None and any(key.endswith("attentions") for key in collected)


def _alphas_of(module: nn.Module) -> Tensor:
    logit = getattr(module, PARAMETER, None)
    if logit is None:
        remedy = "call edge_embed.transformers.attention.learn_alphas(model), or load_alphas after from_pretrained"
        raise BadInputError(f"{type(module).__name__} has no learned alphas: {remedy}")
    return 1 + torch.sigmoid(logit)


def _mask(mask: Tensor | None, keys: int) -> Tensor | None:
    if mask is None:
        return None
    mask = mask[..., :keys]
    if mask.dtype == torch.bool:
        return mask
    return mask.masked_fill(mask <= torch.finfo(mask.dtype).min, -math.inf)  # what transformers masks with


def _whole_mask(*arguments: Any, **options: Any) -> Tensor | None:
    """Return the mask [B, 1, T, S] of sdpa; a causal one too, which sdpa may leave out."""
    return sdpa_mask(*arguments, **options | {"allow_is_causal_skip": False})


def _register(name: str, function: Any) -> None:
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, _whole_mask)


_register("entmax15", partial(_attend, 1.5))
_register("sparsemax", partial(_attend, 2.0))
_register(LEARNED, partial(_attend, None))
