"""Parts of all model cards: the header that the Hub reads, and tables of files and of the origin.

Names come from files of other people. None of them acts as markup, or adds a key to the header.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from edge_embed.report.results.provenance import Provenance
from edge_embed.report.views.markdown.blocks import table, text
from edge_embed.report.views.words import plain

CARD = "README.md"  # the page of a repository on the Hub
_BEGIN = "---\nlibrary_name: edge-embed\n"
# Identifiers that the Hub accepts in `license`. It refuses a card with any other.
_LICENCES = frozenset(
    """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0 etalab-2.0
    eupl-1.1 gemma gfdl gpl gpl-2.0 gpl-3.0 isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3
    lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 openrail openrail++ osl-3.0 pddl postgresql unlicense wtfpl
    zlib
    """.split()
)

# Tasks of the Hub, for its filter.
_TASKS = frozenset(
    """
    feature-extraction fill-mask question-answering sentence-similarity summarization table-question-answering
    text-classification text-generation text-ranking token-classification translation zero-shot-classification
    """.split()
)


def header(origin: Provenance, kind: str) -> str:
    """Return the header of a card, in YAML.

    Args:
        origin: origin of the model.
        kind: tag of the format: ``onnx``, ``tflite`` or ``pytorch``.
    """
    lines = _licence(origin.licence)
    lines += [f"pipeline_tag: {origin.task}"] if origin.task in _TASKS else []
    lines += [f"base_model: {_quoted(origin.base_model)}"] if origin.base_model else []
    return _BEGIN + "\n".join([*lines, "tags:", "- edge-embed", f"- {kind}", "---"])


def is_our_card(path: Path) -> bool:
    """Return whether an existing file is a model card of this program."""
    with path.open("rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN.encode()


def origin_table(made_by: str, origin: Provenance, more: Mapping[str, str]) -> str:
    """Return the program, the file that a model was made from, its licence and its base.

    Args:
        made_by: program with its version.
        origin: origin of the model.
        more: further rows, in Markdown.
    """
    rows = {
        "made by": text(made_by),
        "from": code(origin.source),
        "SHA-256 of that file": code(origin.sha256),
        "base model": code(origin.base_model),
        "licence of the model": text(origin.licence),
    }
    return table(("", ""), ((name, value) for name, value in {**rows, **more}.items() if value), texts=2)


def file_table(sizes: Mapping[str, int]) -> str:
    """Return the bytes of files."""
    return table(("file", "bytes"), ((code(name), f"{size:,}") for name, size in sizes.items()))


def code(words: str) -> str:
    """Return a text in the type of code, on one line; empty for an empty text."""
    shown = plain(words).replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def _licence(stated: str) -> list[str]:
    if stated.lower() in _LICENCES:
        return [f"license: {stated.lower()}"]
    name = re.sub(r"[^a-z0-9.]+", "-", stated.lower()).strip("-.")[:80]
    return ["license: other", f"license_name: {_quoted(name or 'stated-in-the-card')}"] if stated.strip() else []


def _quoted(words: str) -> str:
    """Return a text as YAML in double quotes, of which JSON is a part."""
    return json.dumps(plain(words), ensure_ascii=False)
