"""A zero that a session cannot fold: it keeps values from being constants, which a session would compute and keep.

It is the lesser of 0 and the number of numbers (not NaN) among the first element of a tensor.
"""

NOTHING = """\
  zero_1d = Constant <value_ints: ints = [0]> ()
  one_1d = Constant <value_ints: ints = [1]> ()
  minus_1 = Constant <value_ints: ints = [-1]> ()
  every_number = Reshape ({tensor}, minus_1)
  first_number = Slice (every_number, zero_1d, one_1d, zero_1d)
  is_number = Equal (first_number, first_number)
  numbers = Cast <to: int = 7> (is_number)
  num_numbers = ReduceSum <keepdims: int = 1> (numbers, zero_1d)
  nothing_1d = Min (num_numbers, zero_1d)
"""
"""Nodes that compute ``nothing_1d``, int64 [1], from ``tensor``, of any float type and shape, with their constants."""
