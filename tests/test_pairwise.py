"""Pairwise test cases: no pair of values is missing."""

from itertools import combinations

from .pairwise import pairwise


def test_pairwise_of_four_columns_holds_every_pair_in_few_cases() -> None:
    columns = [range(4), range(4), range(8), range(6)]
    table = pairwise(*columns)
    for (at, some), (other, others) in combinations(enumerate(columns), 2):
        assert {(case[at], case[other]) for case in table} == {(one, two) for one in some for two in others}
    assert len(table) < 80  # all combinations are 768
    assert table == pairwise(*columns)
