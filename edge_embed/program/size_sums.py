"""Dynamic dimensions that are sums of others, by names such as ``past + sequence``."""

from collections.abc import Callable, Collection, Sequence

from edge_embed.program.program import Sizes

PLUS = " + "
# name, all names -> names and numbers it is the sum of, or none
Terms = Callable[[str, Collection[str]], Sequence[str]]


def named_terms(name: str, names: Collection[str]) -> list[str]:
    """Return the names and numbers that a name lists with plus signs; none if one of them is unknown."""
    terms = [term.strip() for term in name.split("+")]
    return terms if len(terms) > 1 and all(term.isdigit() or term in names for term in terms) else []


def summed(sizes: Sizes, terms: Terms = named_terms, requested: Collection[str] = ()) -> dict[str, int]:
    """Return sizes in which sums have their values.

    Args:
        sizes: sizes by name.
        terms: returns the terms of a sum.
        requested: sums that keep their size.
    """
    found = {name: terms(name, sizes) for name in sizes if name not in requested}
    values = {
        name: sum(int(term) if term.isdigit() else sizes[term] for term in parts)
        for name, parts in found.items()
        if parts
    }
    return {**sizes, **values}
