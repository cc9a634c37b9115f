"""Inflection: the task that is trained."""

from collections.abc import Mapping

import numpy as np
from multi30k.model import Translator
from multi30k.task import TranslationTask


class InflectionTask(TranslationTask):
    """Prediction of each letter of an inflected form from the word, its features and the previous letters."""

    num_layers = 2
    places = 48

    def further(self, model: Translator) -> Mapping[str, float]:
        """Return the accuracy and the density of attention."""
        return {"accuracy": self.accuracy(model), "density": self.density(model)}

    def accuracy(self, model: Translator) -> float:
        """Return the percentage of words of the test part whose greedy form has no wrong letter."""
        forms = self.translated(model, self.corpus.test.source)
        pairs = zip(forms, self.corpus.references, strict=True)
        return 100 * float(np.mean(["".join(letters) == reference for letters, reference in pairs]))
