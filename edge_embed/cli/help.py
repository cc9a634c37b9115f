"""``--help`` of commands with many options: in sections, with examples below."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class HelpCommand(click.Command):
    """A command whose help has sections and examples.

    Args:
        sections: titles, and the names of the parameters under each; all others are under ``Options``.
        examples: command lines without the name of the program.
        settings: arguments of ``click.Command``.
    """

    def __init__(
        self,
        *arguments: Any,
        sections: Mapping[str, Sequence[str]] | None = None,
        examples: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.sections, self.examples = sections or {}, examples

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section as a separate list."""
        titles = {name: title for title, names in self.sections.items() for name in names}
        listed: dict[str, list[tuple[str, str]]] = {title: [] for title in (*self.sections, "Options")}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record:
                listed[titles.get(parameter.name or "", "Options")].append(record)
        for title, records in listed.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, whose lines are not wrapped, so that they can be copied."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}edge-embed {example}\n")
