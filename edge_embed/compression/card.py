"""Model card of a compressed file: what the report, the request and the files say."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from edge_embed.compression.job import Job
from edge_embed.program.provenance import provenance_of, sha256_of
from edge_embed.report.results.compressed import CompressReport
from edge_embed.report.views.markdown.compressed import CardFacts, compressed_card
from edge_embed.runtime.library import package_version


def card_of(
    report: CompressReport,
    job: Job,
    source: Path | None,
    written: Path,
    name: str = "",
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Return the model card of a compressed file, in Markdown.

    Args:
        report: result of the compression.
        job: the request.
        source: file or folder of the model before compression; None for a program of no file.
        written: the compressed model file.
        name: name of the folder of the file, if a folder was written.
        metadata: strings that were saved with the model.
    """
    facts = CardFacts(
        name or written.name,
        written.name,
        sha256_of(written),
        f"edge-embed {package_version()}",
        dict(_settings(job)),
        provenance_of(source, metadata or {}),
    )
    return compressed_card(report, facts)


def _settings(job: Job) -> Iterator[tuple[str, str]]:
    plan = job.plan
    yield "method", plan.method
    goals: dict[str, object] = {"ratio": plan.ratio, "budget in bytes": plan.budget}
    goals |= {"lowest mean cosine": plan.min_cosine, "objective": plan.objective, **plan.options}
    yield from ((name, f"{value}") for name, value in goals.items() if value is not None)
    if job.names:
        yield "tables that were named", ", ".join(job.names)
    if job.counts:
        yield "frequencies of rows", ", ".join(job.counts)
    yield "seed", f"{plan.seed}"
