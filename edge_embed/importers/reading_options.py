"""How a file of vectors is to be read, where it does not say that itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EncodingErrors = Literal["strict", "replace", "skip"]


@dataclass(frozen=True)
class Reading:
    """What a user says of a file of vectors.

    Attributes:
        has_tokens: whether each row begins with a token; None: as the file shows.
        tokens_from: a file with the token of each row, where the vectors have none.
        encoding_errors: of a token that is no UTF-8 or empty: ``strict`` refuses the file, ``replace`` puts U+FFFD in
            the place of wrong bytes, ``skip`` leaves the row out.
        drop_duplicates: leave rows out whose token came before, however many they are.
    """

    has_tokens: bool | None = None
    tokens_from: Path | None = None
    encoding_errors: EncodingErrors = "strict"
    drop_duplicates: bool = False

    @property
    def given(self) -> list[str]:
        """The options that differ from the defaults."""
        return [
            name
            for name, is_given in (
                ("--tokens" if self.has_tokens else "--no-tokens", self.has_tokens is not None),
                ("--tokens-from", self.tokens_from is not None),
                ("--encoding-errors", self.encoding_errors != "strict"),
                ("--drop-duplicates", self.drop_duplicates),
            )
            if is_given
        ]


AS_IT_SHOWS = Reading()
