"""Operators that a saved program may call: pure arithmetic on tensors and shapes.

Every other operator is refused by name. The list is the security boundary of the reader. An operator belongs here only
if it meets three conditions. It does not use files, devices or the interpreter (``aten.from_file`` writes files). It
checks its own bounds (``aten._reshape_alias`` reads outside its storage). It gives the same output for the same input
(random operators could not be validated).
"""

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

from edge_embed.errors import BadInputError
from edge_embed.methods import Collected, Parts
from edge_embed.ops import entmax, recurrent
from edge_embed.ops.operators import TableOperators

_ATEN = frozenset(
    """
    __and__ __lshift__ __or__ __rshift__ __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _fused_rms_norm
    _log_softmax _native_batch_norm_legit_no_training _safe_softmax _shape_as_tensor _softmax _to_copy
    _unsafe_index _unsafe_view _weight_norm _weight_norm_interface abs absolute acos acosh adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d add
    addbmm addcdiv addcmul addmm addmv addr alias alias_copy all amax amin aminmax any arange arccos arccosh
    arcsin arcsinh arctan arctan2 arctanh argmax argmin argsort asin asinh atan atan2 atanh atleast_1d
    atleast_2d atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm batch_norm bilinear
    binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor bmm broadcast_tensors broadcast_to bucketize cat cdist ceil celu chunk
    clamp clamp_max clamp_min clip clone column_stack concat concatenate constant_pad_nd contiguous conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution copy cos cosh
    cosine_similarity count_nonzero cross cross_entropy_loss cummax cummin cumprod cumsum deg2rad detach diag
    diag_embed diagonal diagonal_copy diff div divide dot dropout dstack einsum elu embedding embedding_bag
    empty_like eq erf erfc exp exp2 expand expand_as expand_copy expm1 eye fill flatten flip fliplr flipud
    float_power floor floor_divide fmax fmin fmod frac full full_like gather ge gelu glu greater greater_equal
    group_norm gru_cell gt hardshrink hardsigmoid hardswish hardtanh heaviside hstack huber_loss hypot index
    index_add index_copy index_fill index_put index_select inner instance_norm isclose isfinite isin isinf
    isnan isneginf isposinf kron l1_loss layer_norm le leaky_relu lerp less less_equal lift_fresh
    lift_fresh_copy linalg_cross linalg_matmul linalg_norm linalg_vecdot linalg_vector_norm linear linspace
    log log10 log1p log2 log_sigmoid log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not
    logical_or logical_xor logit logsumexp lstm_cell lt masked_fill masked_scatter masked_select matmul
    matrix_H max max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices maximum mean meshgrid mH min minimum mish mm movedim mse_loss mT mul multiply mv
    nan_to_num nansum narrow native_batch_norm native_dropout native_group_norm native_layer_norm ne neg
    negative new_empty new_full new_ones new_zeros nll_loss nonzero nonzero_numpy norm not_equal numpy_T
    one_hot ones ones_like outer pad pairwise_distance permute permute_copy pixel_shuffle pixel_unshuffle
    positive pow prelu prod rad2deg reciprocal reflection_pad1d reflection_pad2d relu relu6 remainder repeat
    repeat_interleave replication_pad1d replication_pad2d reshape resolve_conj resolve_neg rms_norm
    rnn_relu_cell rnn_tanh_cell roll rot90 round rsqrt rsub scalar_tensor scaled_dot_product_attention scatter
    scatter_add scatter_reduce searchsorted select select_copy select_scatter selu sgn sigmoid sign signbit
    silu sin sinc sinh slice slice_copy slice_scatter smooth_l1_loss softmax softplus softshrink sort
    special_erf special_expit special_expm1 special_log_softmax special_softmax split split_copy
    split_with_sizes split_with_sizes_copy sqrt square squeeze squeeze_copy stack std std_mean sub subtract
    sum sum_to_size swapaxes sym_numel sym_size t t_copy take take_along_dim tan tanh tensor_split tensordot
    threshold tile to topk trace transpose transpose_copy tril tril_indices triu triu_indices true_divide
    trunc type_as unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze unsqueeze_copy upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d var var_mean vdot view view_as view_copy vstack where xlogy zeros zeros_like
    """.split()
)
GET_ITEM: Callable[..., Any] = operator.getitem
# Checks that tracing leaves in the graph: they compute nothing, and this package checks ids itself.
IGNORED = frozenset(
    """
    aten._assert_async aten._assert_scalar aten._assert_tensor_metadata aten.sym_constrain_range
    aten.sym_constrain_range_for_size
    """.split()
)
# Operators that extract a number from a tensor, as w[id] does for an id of rank 0, and the one that selects a row by
# it.
NUMBERS = frozenset(["aten.item.default", "aten._local_scalar_dense.default"])
SELECT = "aten.select.int"
INDEX: Callable[..., Any] = torch.ops.aten.index.Tensor
RESHAPE: Callable[..., Any] = torch.ops.aten.reshape.default
_SHAPE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "math.trunc": math.trunc,
    **{f"_operator.{name}": getattr(operator, name) for name in
       "eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_".split()},
    **{f"torch.{name}": getattr(torch, name) for name in
       "sym_not sym_int sym_float sym_ite sym_max sym_min".split()},
}  # fmt: skip
_TABLES = Collected(
    lambda: (
        (f"torch.ops.{overload}", overload)
        for forms in Parts[tuple[TableOperators, ...]]("operators").values()
        for form in forms
        for overload in form.uses.values()
    )
)
_RECURRENT = {f"torch.ops.{overload}": overload for overload in recurrent.OPERATORS.values()}
# A program from another tool has the operator itself or, with a fixed length, its decomposition.
_RECURRENT |= {f"torch.ops.aten.{name}.input": opaque for name, opaque in recurrent.OPERATORS.items()}
_ENTMAX = {f"torch.ops.{overload}": overload for overload in entmax.OPERATORS.values()}


_REMEDIES = {
    "embedding_renorm": "it belongs to max_norm of nn.Embedding; set .max_norm = None after training",
    "^item$|_local_scalar_dense": "it comes from .item(), .tolist() or int() of a tensor; compute with the tensor",
    "rand|bernoulli|multinomial|normal_|^normal$": "it draws random numbers; give them as an input",
    "fft|complex|view_as_real": "it computes complex numbers; use two real tensors for real and imaginary parts",
    "sparse": "exported files do not support sparse tensors; use dense tensors",
    "quantize": "quantise the exported file, not the model",
}


def resolve(target: str) -> Callable[..., Any] | None:
    """Return the function that a node of a saved program calls, or None for a check that may be dropped.

    Raises:
        BadInputError: if the operator is not on the list; the message names the operator and the remedy.
    """
    name = target.removeprefix("torch.ops.")
    if is_ignored(name):
        return None
    known = _SHAPE_FUNCTIONS.get(target) or _TABLES.get(target) or _RECURRENT.get(target) or _ENTMAX.get(target)
    if known is not None:
        return known
    namespace, _, rest = name.partition(".")
    if namespace == "higher_order":
        raise BadInputError(
            f"the model uses control flow ({name:.200}), which cannot be exported: "
            "replace the branch or loop by tensor arithmetic such as torch.where"
        )
    packet, _, overload = rest.partition(".")
    if name in NUMBERS:
        raise BadInputError(number_refusal(name))
    if namespace != "aten" or not {packet, packet.removesuffix("_")} & _ATEN:
        raise BadInputError(f"the operator {name!r:.200} is not supported: {_remedy(packet)}")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if not isinstance(found, torch._ops.OpOverload):
        raise BadInputError(f"the operator {name!r:.200} is unknown to torch {torch.__version__}: save the model again")
    if found._schema.is_mutable:
        raise BadInputError(
            f"the operator {name} changes a tensor in place: save the model with edge_embed.save, "
            "or call run_decompositions({}) on the exported program first"
        )
    return found


def is_ignored(name: str) -> bool:
    """Return whether an operator, named without ``torch.ops.``, is a check that may be dropped."""
    return name.rpartition(".")[0] in IGNORED


def number_refusal(name: str) -> str:
    """Return the message for a number extracted from a tensor that is used for more than one row of a tensor."""
    return (
        f"the model reads a number from a tensor ({name}) for another use than a row w[id], such as the end "
        "of a slice. Exported files do not support it: compute with the tensor itself, or look up rows with "
        "torch.nn.functional.embedding(ids, w)"
    )


def _remedy(packet: str) -> str:
    """Return the remedy for an operator that is not on the list, in terms of user code."""
    return next(
        (remedy for names, remedy in _REMEDIES.items() if re.search(names, packet)), "replace it by other operators"
    )
