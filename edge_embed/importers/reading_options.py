"""Options for reading a file of vectors that the file itself leaves open."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

EncodingErrors = Literal["strict", "replace", "skip"]


@dataclass(frozen=True)
class Reading:
    """User's options for a file of vectors.

    Attributes:
        has_tokens: whether each row begins with a token; None to derive it from the file.
        tokens_from: file with the token of each row, if the vectors have none.
        encoding_errors: handling of a token that is empty or not UTF-8: ``strict`` refuses the file, ``replace`` writes
            U+FFFD in place of wrong bytes, ``skip`` leaves the row out.
        drop_duplicates: whether to leave out any number of rows whose token occurred before.
    """

    has_tokens: bool | None = None
    tokens_from: Path | None = None
    encoding_errors: EncodingErrors = "strict"
    drop_duplicates: bool = False

    @property
    def given(self) -> list[str]:
        """Options that differ from the defaults."""
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
