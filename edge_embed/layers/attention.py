"""`nn.MultiheadAttention` whose probabilities can be exactly zero, with a fixed alpha or one of each attention head.

    out = W_o concat_h(sum_j p_hj v_hj) + b_o        p_h = entmax_alpha_h(q_h k_h^T / sqrt(d) + mask)
    alpha_h = 1 + sigmoid(a_h)                       if attention heads learn their alpha

Source: "Adaptively Sparse Transformers" (Correia, Niculae and Martins, EMNLP 2019), section 3.

Shapes: B sequences, T queries, S keys, embed_dim E, H attention heads of width d = E / H.
"""

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edge_embed.errors import BadInputError
from edge_embed.layers.activations import Entmax
from edge_embed.ops.attention import attention
from edge_embed.ops.logits import is_in_autocast

Activation = str | float | Entmax

LEARNED = "learned"
_ALPHAS = {"softmax": 1.0, "entmax15": 1.5, "sparsemax": 2.0}


def make_activation(activation: Activation, num_heads: int) -> Entmax:
    """Return the module for the argument ``activation`` of `SparseMultiheadAttention`.

    Raises:
        BadInputError: if it is none of the names, no alpha from 1 to 4 and no `Entmax` for these attention heads.
    """
    if isinstance(activation, Entmax):
        if activation.num_heads not in (None, num_heads) or activation.dim != -1:
            got = f"an Entmax of dim {activation.dim} and num_heads {activation.num_heads}"
            raise BadInputError(f"activation: got {got}, expected dim -1 and num_heads {num_heads} or None")
        return activation
    if activation == LEARNED:
        return Entmax(num_heads=num_heads)
    if isinstance(activation, str):
        if activation not in _ALPHAS:
            names = ", ".join((*_ALPHAS, LEARNED))
            raise BadInputError(f"activation: got {activation!r:.80}, expected one of {names}, an alpha, or an Entmax")
        return Entmax(_ALPHAS[activation])
    return Entmax(activation)


class SparseMultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with alpha-entmax in place of softmax; the state is the same, plus learned alphas.

    In inference without gradients, float32 on the CPU runs in a kernel that reads no value whose probability is zero.

    Args:
        embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype: as
            `nn.MultiheadAttention`.
        activation: "softmax", "entmax15", "sparsemax", an alpha from 1 to 4, or "learned": each attention head learns
            its alpha, which begins at 1.5. ``Entmax(1.2, num_heads=H)`` begins at another one.

    Attributes:
        activation: the `Entmax` that computes the probabilities; ``activation.alpha`` is its alpha, or those [H].

    Shape:
        As `nn.MultiheadAttention`: query ``[T, B, E]``, key ``[S, B, kdim]`` and value ``[S, B, vdim]`` -> output
        ``[T, B, E]`` and probabilities ``[B, T, S]``, or ``[B, H, T, S]``. With ``batch_first``, B is first; it may be
        missing. Masks are bool, where True excludes a key, or numbers to add to the scores.

    Raises:
        BadInputError: for arguments that do not fit together, an unknown activation, and, when called, inputs or
            masks of other shapes or dtypes than these.
    """

    activation: Entmax

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation: Activation = "entmax15",
    ) -> None:
        for name, size in {"embed_dim": embed_dim, "num_heads": num_heads, "kdim": kdim, "vdim": vdim}.items():
            if (size is None and name in ("embed_dim", "num_heads")) or (size is not None and not _is_size(size)):
                raise BadInputError(f"{name}: got {size!r:.80}, expected an integer of at least 1")
        if embed_dim % num_heads:
            raise BadInputError(f"embed_dim: got {embed_dim}, expected a multiple of num_heads {num_heads}")
        if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout <= 1:
            raise BadInputError(f"dropout: got {dropout!r:.80}, expected a probability from 0 to 1")
        if dtype is not None and not dtype.is_floating_point:
            raise BadInputError(f"dtype: got {dtype}, expected a floating-point dtype")
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self.activation = make_activation(activation, num_heads).to(device, dtype)
        self._qkv_same_embed_dim = False  # the fast path of nn.TransformerEncoder, which is softmax, looks at this

    @classmethod
    def from_dense(
        cls, dense: nn.MultiheadAttention, activation: Activation = "entmax15"
    ) -> "SparseMultiheadAttention":
        """Return attention with the parameters of an `nn.MultiheadAttention`, which both then share."""
        if not isinstance(dense, nn.MultiheadAttention):
            raise BadInputError(f"dense: got {type(dense).__name__}, expected nn.MultiheadAttention")
        made = cls(
            dense.embed_dim,
            dense.num_heads,
            dense.dropout,
            bias=dense.in_proj_bias is not None,
            add_bias_kv=dense.bias_k is not None,
            add_zero_attn=dense.add_zero_attn,
            kdim=dense.kdim if dense.in_proj_weight is None else None,
            vdim=dense.vdim if dense.in_proj_weight is None else None,
            batch_first=dense.batch_first,
            device="meta",
        )
        made.out_proj = dense.out_proj
        if dense._parameters.keys() != made._parameters.keys():
            got = f"parameters {', '.join(dense._parameters)}"
            raise BadInputError(f"dense: got {got}, expected those of nn.MultiheadAttention: undo pruning or the like")
        for name, parameter in dense._parameters.items():
            made.register_parameter(name, parameter)
        like = dense.out_proj.weight
        made.activation = make_activation(activation, dense.num_heads).to(like.device, like.dtype)
        return made.train(dense.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, with ``need_weights``, the probabilities, or their mean over the attention heads.

        A query whose keys are all masked attends to none. With ``is_causal``, ``attn_mask`` is what is applied; without
        it, a query attends to keys up to its own position.
        """
        is_batched = self._check_inputs(query, key, value)
        if not is_batched:
            query, key, value = (each[None] for each in (query, key, value))
            key_padding_mask = key_padding_mask[None] if isinstance(key_padding_mask, Tensor) else key_padding_mask
        elif not self.batch_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        mask = self._merged_mask(query, key.shape[1], attn_mask, key_padding_mask, is_causal)
        q, k, v = self._projected(query, key, value)  # [B, H, T, d], [B, H, S', d] with added keys
        if mask is not None and k.shape[2] > key.shape[1]:
            mask = F.pad(mask, (0, k.shape[2] - key.shape[1]))
        dropout = self.dropout if self.training else 0.0
        mean, weights = attention(
            q, k, v, self.activation.alpha, mask, dropout=dropout, need_weights=need_weights
        )  # [B, H, T, d], [B, H, T, S']
        out = self.out_proj(mean.transpose(1, 2).flatten(2))  # [B, T, E]
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not is_batched:
            return out[0], None if weights is None else weights[0]
        return out if self.batch_first else out.transpose(0, 1), weights

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> bool:
        """Return whether the inputs have a dimension of sequences."""
        widths = {"query": self.embed_dim, "key": self.kdim, "value": self.vdim}
        named = dict(zip(widths, (query, key, value), strict=True))
        for name, each in named.items():
            is_dense = isinstance(each, Tensor) and not each.is_nested and each.layout == torch.strided
            got = f"shape {list(each.shape)}" if is_dense else f"a {type(each).__name__} that is no dense tensor"
            if not is_dense or each.ndim not in (2, 3) or each.ndim != query.ndim:
                raise BadInputError(
                    f"{name}: got {got}, expected a dense tensor [*, {widths[name]}] of 2 or 3 dimensions"
                )
            if each.shape[-1] != widths[name]:
                raise BadInputError(f"{name}: got {got}, expected {widths[name]} as the last dimension")
            like = self.out_proj.weight.dtype
            if not each.is_floating_point() or (each.dtype != like and not is_in_autocast(each.device.type)):
                raise BadInputError(f"{name}: got {each.dtype}, expected {like} as the parameters: convert it")
        if key.shape[:-1] != value.shape[:-1]:
            got = f"key {list(key.shape)} and value {list(value.shape)}"
            raise BadInputError(f"value: got {got}, expected equal dimensions but the last one")
        of_batch = 0 if self.batch_first else 1
        if query.ndim == 3 and query.shape[of_batch] != key.shape[of_batch]:
            got = f"query {list(query.shape)} and key {list(key.shape)}"
            raise BadInputError(f"key: got {got}, expected equal numbers of sequences, in dimension {of_batch}")
        return query.ndim == 3

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values [B, H, *, d], with the keys and values that options add."""
        if self.in_proj_weight is not None and query is key and key is value:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights: tuple[Tensor, ...] = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            weights = weights if self.in_proj_weight is None else self.in_proj_weight.chunk(3)
            biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            inputs = query, key, value
            q, k, v = (F.linear(*each) for each in zip(inputs, weights, biases, strict=True))
        if self.bias_k is not None and self.bias_v is not None:
            k = torch.cat((k, self.bias_k.to(k.dtype).expand(k.shape[0], 1, -1)), 1)
            v = torch.cat((v, self.bias_v.to(v.dtype).expand(v.shape[0], 1, -1)), 1)
        if self.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
        q, k, v = (each.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for each in (q, k, v))
        return q, k, v

    def _merged_mask(
        self, query: Tensor, keys: int, of_queries: Tensor | None, of_keys: Tensor | None, is_causal: bool
    ) -> Tensor | None:
        """Return numbers to add to the scores, which broadcast to [B, H, T, S], or None."""
        batch, queries = query.shape[:2]
        if is_causal and of_queries is None:
            of_queries = torch.ones(queries, keys, dtype=torch.bool, device=query.device).triu(1)
        merged = None
        if of_queries is not None:
            shapes = [queries, keys], [batch * self.num_heads, queries, keys]
            mask = _as_numbers("attn_mask", of_queries, shapes, query.dtype)
            merged = mask if mask.ndim == 2 else mask.unflatten(0, (batch, self.num_heads))
            merged = merged[(None,) * (4 - merged.ndim)]
        if of_keys is not None:
            mask = _as_numbers("key_padding_mask", of_keys, ([batch, keys],), query.dtype)[:, None, None]
            merged = mask if merged is None else merged + mask
        return merged


def use_sparse_attention(model: nn.Module, activation: Activation = "entmax15") -> list[str]:
    """Replace every `nn.MultiheadAttention` inside a model by `SparseMultiheadAttention`, which keeps its parameters.

    The model is changed in place. Give the optimiser ``model.parameters()`` afterwards: learned alphas are new ones.

    Args:
        model: for example `nn.Transformer`, or a model with `nn.TransformerEncoderLayer`. For attention in one place
            only, pass the part: ``model.encoder``.
        activation: as for `SparseMultiheadAttention`; attention heads of every layer learn alphas of their own.

    Returns:
        The names of the modules that were replaced, in the order of the model.

    Raises:
        BadInputError: if the activation is unknown, the model is not a module or has no such attention, or it has
            subclasses of `nn.MultiheadAttention`, whose forward would be lost.
    """
    if not isinstance(model, nn.Module):
        raise BadInputError(f"model: got {model!r:.80}, expected a torch.nn.Module")
    if isinstance(activation, Entmax) and activation.num_heads is not None:
        raise BadInputError("activation: got an Entmax with num_heads, which layers would share: use 'learned'")
    named = list(model.named_modules(remove_duplicate=False))
    found = {name: each for name, each in named if isinstance(each, nn.MultiheadAttention)}
    for name, each in found.items():
        if type(each) not in (nn.MultiheadAttention, SparseMultiheadAttention):
            raise BadInputError(f"{name}: got {type(each).__name__}, expected nn.MultiheadAttention itself")
    if not found or "" in found:
        got = f"{type(model).__name__} without any" if not found else f"{type(model).__name__} itself"
        remedy = (
            "SparseMultiheadAttention.from_dense replaces one module; transformers models have attention of their own"
        )
        raise BadInputError(f"model: got {got}, expected a model that contains nn.MultiheadAttention: {remedy}")
    made = {each: SparseMultiheadAttention.from_dense(each, activation) for each in dict.fromkeys(found.values())}
    for name, each in found.items():
        model.set_submodule(name, made[each])
    for _, each in named:
        if isinstance(each, nn.TransformerEncoder):
            each.use_nested_tensor = False  # which only its fast path takes
    return list(found)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _as_numbers(name: str, mask: Tensor, shapes: tuple[list[int], ...], dtype: torch.dtype) -> Tensor:
    if not isinstance(mask, Tensor) or not (mask.dtype == torch.bool or mask.is_floating_point()):
        got = f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else f"{mask!r:.80}"
        raise BadInputError(f"{name}: got {got}, expected a bool tensor, where True excludes a key, or numbers to add")
    if list(mask.shape) not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise BadInputError(f"{name}: got shape {list(mask.shape)}, expected {expected}")
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf)
    return mask.to(dtype)
