"""Documents, docstrings, help texts and test names follow the rules, and the rules find what breaks them."""

import re

import pytest

from .lint import findings
from .rules import broken_rules, broken_rules_of_name, read_synonyms
from .texts import CODE, Sentence, split_sentences, tracked


def test_project_texts_break_no_rule() -> None:
    assert list(findings()) == []


@pytest.mark.parametrize(
    ("text", "is_first", "found"),
    [
        ("Return the rows.", True, []),
        ("What a row is.", False, ["begins with 'What a'"]),
        ("What is a row?", False, []),
        ("Of all rows, the first.", False, ["begins with 'Of all'"]),
        ("Whether a row is zero.", True, ["a first line begins with 'Whether'"]),
        ("Whether a row is zero depends on the penalty.", False, []),
        ("One look-up of two heads.", False, ["says 'look-up'", "says 'head'"]),
        ("A header and a bookmark.", False, []),
        ("Two attention heads share a head.", False, ["says 'head'"]),
        ("Two attention heads.", False, []),
        (" ".join(["word"] * 30), False, []),
        (" ".join(["word"] * 31), False, ["has 31 words"]),
    ],
)
def test_sentence_rules_find_violations(text: str, is_first: bool, found: list[str]) -> None:
    synonyms = {"look-up": "lookup", "head": "output layer", "book": "codebook"}
    broken = list(broken_rules(Sentence("here", text, is_first), synonyms))
    assert [message.split(",")[0] for message in broken] == found


@pytest.mark.parametrize(
    ("name", "is_good"),
    [("test_bag_without_ids_is_zero", True), ("test_a_bag_is_zero", False), ("test_bag_zero", False)],
)
def test_name_rules_find_violations(name: str, is_good: bool) -> None:
    assert (list(broken_rules_of_name(name)) == []) == is_good


def test_split_sentences_keeps_numbers_and_code_together() -> None:
    text = "The rate is 0.5 (see ``a.b``). It falls: first to `0.1`, then further."
    assert split_sentences(text) == [f"The rate is 0.5 (see {CODE}).", "It falls:", f"first to {CODE}, then further."]


def test_glossary_synonyms_name_their_terms() -> None:
    assert read_synonyms()["look-up"] == "lookup"
    assert read_synonyms()["head"] == "output layer"


# In attention, a head is no output layer.
ATTENTION_HEADS = re.compile("attention[ _]?heads?|num_(kv_)?heads", re.IGNORECASE)


def test_cpp_names_are_no_synonyms_of_glossary() -> None:
    synonyms = {word.capitalize() for word in read_synonyms() if word.isalpha()}
    found = {
        f"{path.name}: {word}"
        for path in tracked("runtime_ops/*.cc", "runtime_ops/*.h")
        for word in re.findall("[A-Z]?[a-z]+", path.name + ATTENTION_HEADS.sub("", path.read_text(encoding="utf-8")))
        if word.capitalize().removesuffix("s") in synonyms
    }
    assert found == set()
