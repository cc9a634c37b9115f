"""Errors of huggingface_hub as ours: each names the repository and a remedy, and none shows a token or a signed URL."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from huggingface_hub.errors import (
    BadRequestError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from edge_embed.errors import BadInputError, EdgeEmbedError, OutputError
from edge_embed.program.provenance import is_hub_id

_FULL = (errno.ENOSPC, errno.EDQUOT)
LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def checked_repo(value: object) -> str:
    """Return the id of a repository.

    Raises:
        BadInputError: it is no ``OWNER/NAME``.
    """
    if isinstance(value, str) and is_hub_id(value):
        return value
    raise BadInputError(f"repo_id: got {value!r:.120}, expected OWNER/NAME, of letters, digits, -, _ and single dots")


def check_revision(value: object) -> None:
    """Refuse what names neither a branch nor a tag nor a commit.

    Raises:
        BadInputError: it is neither None nor such a name.
    """
    _check_name(value, "a branch, tag or commit", r"\.\.")


def check_branch(value: object) -> None:
    """Refuse what cannot become a branch: Git refuses some names, and the Hub reads others as a commit.

    Raises:
        BadInputError: it is neither None nor such a name.
    """
    _check_name(value, "a branch", r"\.\.|//|/\.|\.lock(/|$)|^(refs|main)/|^HEAD$|^[0-9a-f]{40}$")


def _check_name(value: object, expected: str, never: str) -> None:
    is_name = isinstance(value, str) and re.fullmatch(r"\w(?:[\w./-]{0,250}\w)?", value)
    if value is not None and not (is_name and not re.search(never, str(value))):
        raise BadInputError(f"revision: got {value!r:.120}, expected the name of {expected}, such as main")


@contextmanager
def hub_errors(repo_id: str, revision: str | None) -> Iterator[None]:
    """Turn errors of huggingface_hub into ours.

    Args:
        repo_id: id of the repository, for messages.
        revision: branch, tag or commit; None for the main branch.

    Raises:
        BadInputError: the repository or the revision does not exist, the token lacks a right, or there is neither a
            connection nor a cached file.
        OutputError: a file cannot be written.
        EdgeEmbedError: the Hub failed.
    """
    try:
        yield
    except (EdgeEmbedError, MemoryError):
        raise
    except Exception as error:  # they have no common base class
        raise _translated(error, repo_id, revision) from error


def _not_cached(error: LocalEntryNotFoundError, repo_id: str, revision: str | None) -> EdgeEmbedError:
    """Return the error for a file that is not in the cache; its cause is the reason why the Hub was not used."""
    if isinstance(error.__cause__, HfHubHTTPError):
        return _answered(error.__cause__, repo_id, revision)
    missing = f"{repo_id}: got no complete copy in the cache"
    if error.__cause__ is None or isinstance(error.__cause__, OfflineModeIsEnabled):
        return BadInputError(
            f"{missing} while outgoing traffic is off, expected one: call it once with a connection, without "
            "local_files_only and HF_HUB_OFFLINE"
        )
    reason = words_of(error.__cause__)
    return BadInputError(f"{missing} and no answer from {constants.ENDPOINT} ({reason}): check the connection")


def _translated(error: Exception, repo_id: str, revision: str | None) -> EdgeEmbedError:
    if isinstance(error, LocalEntryNotFoundError):
        return _not_cached(error, repo_id, revision)
    if isinstance(error, HfHubHTTPError):
        return _answered(error, repo_id, revision)
    if isinstance(error, OfflineModeIsEnabled):
        return BadInputError(f"{repo_id}: outgoing traffic is off, expected a connection: unset HF_HUB_OFFLINE")
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        remedy = "free some space" if error.errno in _FULL else "choose another cache folder"
        return OutputError(f"{error.filename}: {error.strerror}: {remedy}")
    return EdgeEmbedError(f"{repo_id}: {constants.ENDPOINT} did not complete the request: {words_of(error)}: try again")


def _answered(error: HfHubHTTPError, repo_id: str, revision: str | None) -> EdgeEmbedError:
    """Return the error for an answer of the Hub."""
    status = error.response.status_code
    if isinstance(error, GatedRepoError):
        address = f"{constants.ENDPOINT}/{repo_id}"
        return BadInputError(f"{repo_id}: its owner grants access, expected it for your token: ask at {address}")
    if isinstance(error, RevisionNotFoundError):
        return BadInputError(f"revision: got {revision!r:.80}, expected a branch, tag or commit of {repo_id}")
    if isinstance(error, RepositoryNotFoundError):
        return BadInputError(
            f"{repo_id}: got neither a folder of this name nor a repository at {constants.ENDPOINT} that the token may "
            f"read: check the name, or {LOG_IN}"
        )
    if status == 401:
        return BadInputError(f"{repo_id}: got no valid token (answer 401), expected one: {LOG_IN}")
    if status == 403:
        return BadInputError(
            f"{repo_id}: the token has no right for this (answer 403), expected one that has it: make it in "
            f"the settings of the account, and {LOG_IN}"
        )
    said = " ".join((error.server_message or "").split())[:300] or "no reason"
    answer = f"{repo_id}: {constants.ENDPOINT} answers {status}: {said}"
    if isinstance(error, BadRequestError):
        return BadInputError(f"{answer}: change the request accordingly")
    return EdgeEmbedError(f"{answer}: try again later")


def words_of(error: BaseException) -> str:
    """Return the type and the message of an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
