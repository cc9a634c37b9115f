"""Header of a model card, which the Hub reads."""

from huggingface_hub import ModelCard

from edge_embed.errors import BadInputError, one_line
from edge_embed.hub.failures import words_of


def check_card(content: bytes, *, by_hub: bool = False) -> None:
    """Refuse a card whose header the client of the Hub cannot read.

    Args:
        content: the card.
        by_hub: ask the Hub too.

    Raises:
        BadInputError: it is refused. The message does not name the file.
    """
    try:
        card = ModelCard(content.decode("utf-8-sig"))
    except Exception as error:  # those of its parser have no common base class
        raise BadInputError(f"got no model card ({one_line(error)}), expected text with a header in YAML") from error
    if by_hub:
        try:
            card.validate()
        except ValueError as error:
            raise BadInputError(
                f"the Hub refuses the header ({words_of(error)}), expected one that it reads: correct it"
            ) from error
