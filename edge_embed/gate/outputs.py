"""The files that a check writes: places are checked before the work, and filled after it, whatever it found."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.storage import weights_file
from edge_embed.files import StrPath, new_file
from edge_embed.report.check import CheckReport
from edge_embed.report.html.check import check_page
from edge_embed.report.html.page import check_html
from edge_embed.report.junit import to_junit
from edge_embed.report.markdown import to_markdown

Form = Callable[[CheckReport], str]


def to_json_text(report: CheckReport) -> str:
    """The JSON report, as `edge-embed check` takes it for a baseline: stable order, line by line for its history."""
    return json.dumps(report.to_json(), indent=1, allow_nan=False) + "\n"


FORMS: Mapping[str, Form] = {
    "output": to_json_text,
    "junit": to_junit,
    "markdown": to_markdown,
    "html": check_page,
}


@contextmanager
def reports_at(
    places: Mapping[str, StrPath | None], *, keep: Sequence[Path], baseline: Path | None, force: bool
) -> Iterator[Callable[[CheckReport], None]]:
    """Yield a function that writes a report in every form that has a place.

    Args:
        places: by a key of `FORMS`; None is not written.
        keep: files that no report may replace, not even by force; what lies beside them as external data neither.
        baseline: one that only the JSON report may replace.
        force: overwrite existing files.

    Raises:
        BadInputError: what HTML is made with is missing; a place is taken, impossible, an input, or given twice.
        OutputError: a report could not be written; none is half there.
    """
    chosen = {form: Path(path) for form, path in places.items() if path is not None}
    if "html" in chosen:
        check_html()
    _check(chosen, [*keep, *(weights_file(path) for path in keep if path.name)], baseline)
    with ExitStack() as stack:
        temporary = {form: stack.enter_context(new_file(path, force=force)) for form, path in chosen.items()}

        def write(report: CheckReport) -> None:
            for form, path in temporary.items():
                path.write_text(FORMS[form](report), encoding="utf-8")

        yield write


def _check(chosen: Mapping[str, Path], keep: Sequence[Path], baseline: Path | None) -> None:
    resolved = [path.resolve() for path in chosen.values()]
    for form, path in chosen.items():
        if resolved.count(path.resolve()) > 1:
            raise BadInputError(f"{path}: is named for two reports: give --{form} a file of its own")
        kept = [*keep, *([baseline] if baseline and form != "output" else [])]
        if path.resolve() in [other.resolve() for other in kept]:
            raise BadInputError(f"{path}: is read by the check: give --{form} another path")
