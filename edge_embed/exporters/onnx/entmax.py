"""Sparse activations in ONNX: nodes ``edge_embed::Sparsemax`` and others, and their portable bodies.

    scores [*, n], alpha [*, 1]  ->  probabilities [*, n], in the type of the scores

The bodies compute in float32, with x = scores - max(scores), and divide the result by its sum. That removes what the
steps left, and makes a whole row NaN if an element is: by NaN or plus infinity, or without any finite score.

Sparsemax and 1.5-entmax approach the threshold tau from below by Newton's steps on a convex function, as the kernels
do (``runtime_ops/kernels/entmax/fast.h``); the step of sparsemax is exact once the right scores lie above tau:

    sparsemax    p = max(0, x - tau)          tau += (sum p - 1) / count(x > tau)
    1.5-entmax   p = max(0, x / 2 - tau)^2    tau += (r - 1) r / (sum of max(0, x / 2 - tau)), r = sqrt(sum p)

alpha-entmax bisects mu, with c = alpha - 1:

    p = (1 + c y)^(1 / c) = exp(2 / c atanh(c y / (c y + 2)))        y = x + mu, max(-20, -1 / c) <= mu <= 0

ONNX has no log1p, but its atanh keeps the digits of small c y. Up to c = 2^-22, c stays there: the probabilities
differ from those of softmax by less than 1e-7. The lower end -20 serves rows of up to e^20 scores. For alpha above 2,
the power 1 / c multiplies rounding errors of float32, up to 1e-3 for alpha = 4; the kernels take float64 there.

A comparison in front of ``Where`` takes the place of ``Max`` and ``Clip``, which make numbers of NaN in some runtimes.
"""

from collections.abc import Callable, Mapping
from typing import Any

import onnx
from onnx import parser
from onnx.defs import OpSchema
from onnxscript import values

from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, OPSET
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS, OUTPUT
from edge_embed.ops.entmax import OPERATORS
from edge_embed.packed.manifest import FORMAT_VERSION

_CONSTANTS = """
  axis = Constant <value_ints: ints = [-1]> ()
  zero = Constant <value: tensor = float {0.0}> ()
  one = Constant <value: tensor = float {1.0}> ()
"""
_LOWER = """
  wide = Cast <to: int = 1> (scores)
  largest = ReduceMax <keepdims: int = 1> (wide, axis)
  lower = Sub (wide, largest)
"""
_SHARES = """
  sums = ReduceSum <keepdims: int = 1> (parts, axis)
  shares = Div (parts, sums)
  probabilities = CastLike (shares, scores)
"""
# A step that is not above 2^-24, or NaN, ends a row; the loop ends with its last row. It does end, as tau only rises.
_NEWTON = """
  least_tau = Constant <value: tensor = float {{-1.0}}> ()
  last_step = Constant <value: tensor = float {{0.000000059604645}}> ()
  starts = Constant <value: tensor = bool {{1}}> ()
  tau = Loop ("", starts, least_tau) <
    body = step (int64 number, bool goes_on, float[] tau_before) => (bool not_done, float[] tau_after) {{
      over = Sub (lower_x, tau_before)
      is_in = Less (zero, over)
      above = Where (is_in, over, zero)
      {step}
      moves = Less (last_step, wanted)
      change = Where (moves, wanted, zero)
      tau_after = Add (tau_before, change)
      all_changes = ReduceSum <keepdims: int = 0> (change)
      not_done = Less (zero, all_changes)
    }}
  >
  difference = Sub (lower_x, tau)
"""
_KEPT = """
  is_out = Less (difference, zero)
  kept = Where (is_out, zero, difference)
"""
_SPARSEMAX_STEP = """
      total = ReduceSum <keepdims: int = 1> (above, axis)
      ones = Cast <to: int = 1> (is_in)
      count = ReduceSum <keepdims: int = 1> (ones, axis)
      excess = Sub (total, one)
      wanted = Div (excess, count)
"""
_ENTMAX15_STEP = """
      total = ReduceSum <keepdims: int = 1> (above, axis)
      root = ReduceL2 <keepdims: int = 1> (above, axis)
      excess = Sub (root, one)
      product = Mul (excess, root)
      wanted = Div (product, total)
"""
_SPARSEMAX = (
    _CONSTANTS
    + _LOWER.replace("lower", "lower_x")
    + _NEWTON.format(step=_SPARSEMAX_STEP.strip())
    + _KEPT.replace("kept", "parts")
    + _SHARES
)
_ENTMAX15 = (
    _CONSTANTS
    + "  half = Constant <value: tensor = float {0.5}> ()\n"
    + _LOWER
    + "  lower_x = Mul (lower, half)\n"
    + _NEWTON.format(step=_ENTMAX15_STEP.strip())
    + _KEPT
    + "  parts = Mul (kept, kept)\n"
    + _SHARES
)
_ENTMAX = (
    """
  axis = Constant <value_ints: ints = [-1]> ()
  one = Constant <value: tensor = float {1.0}> ()
  two = Constant <value: tensor = float {2.0}> ()
  minus_one = Constant <value: tensor = float {-1.0}> ()
  minus_20 = Constant <value: tensor = float {-20.0}> ()
  most_alpha = Constant <value: tensor = float {4.0}> ()
  least_c = Constant <value: tensor = float {0.00000023841858}> ()
  nan = Constant <value: tensor = float {nan}> ()
  starts = Constant <value: tensor = bool {1}> ()
  num_steps = Constant <value_int: int = 32> ()
"""
    + _LOWER
    + """
  in_range = Clip (alpha, one, most_alpha)
  is_known = Equal (in_range, alpha)
  alpha_less_1 = Sub (in_range, one)
  positive = Max (alpha_less_1, least_c)
  c = Where (is_known, positive, nan)
  twice = Div (two, c)
  reach = Div (minus_one, c)
  least_mu = Max (reach, minus_20)
  mu, width, parts = Loop (num_steps, starts, least_mu, least_mu, lower) <
    body = halve (int64 number, bool goes_on, float[] mu_before, float[] width_before, float[] parts_before)
        => (bool not_done, float[] mu_after, float[] width_after, float[] parts_after) {
      not_done = Identity (goes_on)
      width_after = Div (width_before, two)
      middle = Sub (mu_before, width_after)
      y = Add (lower, middle)
      product = Mul (y, c)
      is_out = Less (product, minus_one)
      cy = Where (is_out, minus_one, product)
      cy_and_two = Add (cy, two)
      ratio = Div (cy, cy_and_two)
      angle = Atanh (ratio)
      logarithm = Mul (angle, twice)
      parts_after = Exp (logarithm)
      sum = ReduceSum <keepdims: int = 1> (parts_after, axis)
      is_low = Less (sum, one)
      mu_after = Where (is_low, middle, mu_before)
    }
  >
"""
    + _SHARES
)
_TOPK = (
    _CONSTANTS
    + """
  k = Constant <value_int: int = @k> ()
  k_1d = Reshape (k, axis)
  wide = Cast <to: int = 1> (scores)
  is_number = Equal (wide, wide)
  numbers = Cast <to: int = 1> (is_number)
  all_numbers = ReduceMin <keepdims: int = 1> (numbers, axis)
  top, top_places = TopK (wide, k_1d)
  first = Constant <value_ints: ints = [0]> ()
  largest = Gather <axis: int = -1> (top, first)
  lower_x = Sub (top, largest)
"""
    + _NEWTON.format(step=_SPARSEMAX_STEP.strip())
    + """
  kept = Relu (difference)
  sums = ReduceSum <keepdims: int = 1> (kept, axis)
  shares = Div (kept, sums)
  nothing = Sub (largest, largest)
  rest = Div (nothing, all_numbers)
  rests = Mul (numbers, rest)
  placed = ScatterElements <axis: int = -1> (rests, top_places, shares)
  result = Add (placed, rest)
  probabilities = CastLike (result, scores)
"""
)
_BODIES = {"Sparsemax": _SPARSEMAX, "Entmax15": _ENTMAX15, "Entmax": _ENTMAX, "TopKSparsemax": _TOPK}


def function(op_type: str, opset: int = OPSET) -> onnx.FunctionProto:
    """Return the portable body of a type of node as a function of its name."""
    schema = ACTIVATIONS[op_type]
    header = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]>\n{op_type} <{", ".join(schema.attribute_names)}> '
    signature = f"({', '.join(schema.inputs)}) => ({OUTPUT})"
    return parser.parse_function(f"{header}{signature}\n{{\n{_BODIES[op_type].strip()}\n}}")


def _translation(op_type: str) -> Callable[..., Any]:
    schema, formal, kinds = ACTIVATIONS[op_type], OpSchema.FormalParameter, ["tensor(float)", "tensor(float16)"]
    attributes = [OpSchema.Attribute(name, OpSchema.AttrType.INT, "") for name in schema.attribute_names]
    described = OpSchema(
        op_type,
        DOMAIN,
        DOMAIN_VERSION,
        inputs=[formal(name, "tensor(float)" if name == "alpha" else "T") for name in schema.inputs],
        outputs=[formal(OUTPUT, "T")],
        type_constraints=[("T", kinds, "")],
        attributes=attributes,
    )
    node = values.Op(values.Opset(DOMAIN, DOMAIN_VERSION), op_type, described)

    def translate(*arguments: Any) -> Any:
        given = arguments[: len(schema.inputs)]
        options = dict(zip(schema.attribute_names[1:], arguments[len(schema.inputs) :], strict=True))
        return node(*given, format_version=FORMAT_VERSION, **options)

    return translate


TRANSLATIONS: Mapping[Any, Callable[..., Any]] = {
    OPERATORS["sparsemax"]: _translation("Sparsemax"),
    OPERATORS["entmax15"]: _translation("Entmax15"),
    OPERATORS["alpha_entmax"]: _translation("Entmax"),
    OPERATORS["topk_sparsemax"]: _translation("TopKSparsemax"),
}
"""Translations of the opaque torch operators, for ``torch.onnx.export``."""
