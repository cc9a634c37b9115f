"""Client of the Hub."""

import re

from huggingface_hub import HfApi, constants, get_token

from edge_embed.errors import BadInputError
from edge_embed.hub.failures import LOG_IN
from edge_embed.runtime.library import package_version


def hub_client(token: str | None) -> HfApi:
    """Return the client of the Hub.

    Args:
        token: access token; by default ``HF_TOKEN``, or the token of ``hf auth login``.

    Raises:
        BadInputError: the token cannot be sent.
    """
    used = get_token() if token is None else token
    if isinstance(used, str) and not re.fullmatch("[!-~]+", used):
        raise BadInputError(
            f"token: got {len(used)} characters, expected at least one, all of them visible and of ASCII: "
            f"copy it from {constants.ENDPOINT}/settings/tokens, then {LOG_IN}"
        )
    return HfApi(token=token, library_name="edge-embed", library_version=package_version())
