"""Limits on the change of predictions on texts by compression, for a language model beside its original."""

from collections.abc import Iterator

from edge_embed.gate.budget import TextsBudget
from edge_embed.gate.effect_finding import effect_finding
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import ValidationReport


def text_findings(budget: TextsBudget | None, report: ValidationReport) -> Iterator[Finding]:
    """Yield findings on the predictions of next tokens."""
    found = report.model.texts
    if budget is None or found is None:
        return
    figures = {
        "max_divergence": ("KL divergence", found.divergence),
        "min_top1": ("top-1 agreement", found.top1),
        "min_acceptance": ("acceptance", found.acceptance),
    }
    for key, (name, got) in figures.items():
        limit: float | None = getattr(budget, key)
        if limit is not None:
            yield effect_finding("next tokens of texts", name, got, f"texts.{key}", limit)
