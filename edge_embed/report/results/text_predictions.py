"""Predictions of the next token on texts, by a compressed language model and by its original.

With p the probabilities of the original and q those of the compressed model, after the same tokens:

    divergence = mean of sum_j p_j (log p_j - log q_j)      in nats
    acceptance = mean of sum_j min(p_j, q_j)
    perplexity = exp(-mean of log q_i)                      i: the token that follows in the text

Acceptance is the share of the compressed model's tokens that speculative decoding with the original keeps
(arXiv:2211.17192, section 3.2). Perplexity alone misleads: on texts that the original predicts badly, any other model
may have a lower one.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextPredictions:
    """Predictions of a compressed language model beside those of its original; None marks undefined figures.

    Attributes:
        file: file of the texts.
        tokens: number of predicted tokens: all but the first of the text.
        context: most tokens before a predicted one.
        divergence: mean KL divergence from the original, in nats.
        top1: share of predictions with the same most likely token.
        acceptance: mean overlap of the probabilities.
        original_perplexity: perplexity of the original.
        perplexity: perplexity of the compressed model.
    """

    file: str
    tokens: int
    context: int
    divergence: float | None
    top1: float
    acceptance: float | None
    original_perplexity: float | None
    perplexity: float | None

    def figures(self) -> tuple[str, ...]:
        """Return all figures as texts; empty for undefined ones."""
        divergence, original, compressed = (
            "" if value is None else f"{value:.4g}"
            for value in (self.divergence, self.original_perplexity, self.perplexity)
        )
        acceptance = "" if self.acceptance is None else f"{self.acceptance:.1%}"
        return f"{self.tokens:,}", divergence, f"{self.top1:.1%}", acceptance, original, compressed
