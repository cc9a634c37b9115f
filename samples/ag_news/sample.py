"""Trains the classifier with each table, then exports, validates and compares the models."""

from comparison import Result
from options import Options
from tables import MakeTable
from text_task import TextTask
from training import Recipe, compare

from ag_news.data import news_folder, read
from ag_news.model import TABLES, Classifier

HELD_OUT = 2000

RECIPES = {
    "dense": Recipe(TABLES["dense"], epochs=4, quick_epochs=2, rate=1e-2),
    "dpq": Recipe(TABLES["dpq"], epochs=5, quick_epochs=2, rate=3e-3),
    "ant": Recipe(TABLES["ant"], epochs=6, quick_epochs=3, rate=1e-2, penalty=3e-5),
    "tt": Recipe(TABLES["tt"], epochs=12, quick_epochs=3, rate=1e-2),
}


class NewsTask(TextTask[Classifier]):
    """Classification of news."""

    def model(self, table: MakeTable) -> Classifier:
        """Return the classifier."""
        return Classifier(table(len(self.vocabulary)), int(self.training.classes.max()) + 1)


def run(options: Options) -> list[Result]:
    """Classify news by the mean of their words' vectors, with a dense table and three compressed ones."""
    with news_folder(options.data) as folder:
        task = NewsTask(*read(folder), held_out=HELD_OUT)
    return compare(task, RECIPES, options)
