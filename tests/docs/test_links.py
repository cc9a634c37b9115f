"""Links between documents lead to files and headings that are there."""

import re
from pathlib import Path

import pytest

from ..english.texts import tracked
from .pages import ROOT

DOCUMENTS = [path for path in tracked("*.md") if "tests" not in path.relative_to(ROOT).parts]


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and MyST make them."""
    text = path.read_text(encoding="utf-8")
    included = re.findall(r"^```{include} (\S+)", text, re.MULTILINE)
    text = "\n".join([text, *((path.parent / name).read_text(encoding="utf-8") for name in included)])
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings)
    return {word.strip().lower().replace(" ", "-") for word in words}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("https://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        leads_to = (path.parent / file).resolve() if file else path
        assert leads_to.exists(), target
        assert not anchor or anchor in _anchors(leads_to), target
