"""Model card that a user gives for a saved model: that of this very file, with commands for the repository."""

import re
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.hub.header import check_card
from edge_embed.hub.saved_card import MODEL, opening
from edge_embed.input_file import read_whole
from edge_embed.program.provenance import sha256_of
from edge_embed.report.views.markdown.card import is_our_card

_MOST = 1 << 20
_EXPECTED = "a model card, as compress --card writes it"
_HASH = re.compile(r"^\| SHA-256 of `[^`]*` \| `([0-9a-f]{64})` \|", re.MULTILINE)  # of files that are named
_LOAD = re.compile(r"""edge_embed\.load\(("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\)""")


def given_card(path: Path, model: Path, repo_id: str, revision: str | None) -> bytes:
    """Return the card for the repository, where the model has another name.

    Args:
        path: the card.
        model: the saved model.
        repo_id: id of the repository.
        revision: branch; None for the main one.

    Raises:
        BadInputError: it is no card, or that of another file. The message does not name the path.
    """
    content = read_whole(path, _MOST, _EXPECTED)
    check_card(content)
    words, sha256 = content.decode("utf-8-sig"), sha256_of(model)
    stated = _HASH.findall(words)
    if (stated or is_our_card(path)) and sha256 not in stated:
        raise BadInputError(
            f"got the SHA-256 {stated[0] if stated else 'of no model file'}, expected {sha256} of {model}: give the "
            "card of this file, or leave it out"
        )
    named = re.sub(rf"(?m)^(\| SHA-256 of )`[^`]*`(?= \| `{sha256}`)", rf"\1`{MODEL}`", words)
    return _LOAD.sub(opening(repo_id, revision), named).encode()
