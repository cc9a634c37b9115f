"""Figures of README and of the page of five seeds are those of the samples, rounded to the places that are written."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from .pages import DOCS, ROOT, Page

COMPRESSION_METHODS = Page(DOCS / "guides" / "compression-methods.md")
CALIBRATE = Page(DOCS / "guides" / "calibrate.md")
FINE_TUNE = Page(DOCS / "guides" / "fine-tune-compressed.md")
TIERED_TABLES = Page(DOCS / "guides" / "tiered-tables.md")
TIERED_TRAINING = Page(DOCS / "guides" / "tiered-training.md")
DRAFT_MODELS = Page(DOCS / "guides" / "draft-models.md")
DPQ = Page(DOCS / "guides" / "dpq-training.md")
README = Page(ROOT / "README.md")
FIVE_SEEDS = Page(DOCS / "performance" / "results-five-seeds.md")
ANT = Page(DOCS / "papers" / "ant.md")
SPARSE_ATTENTION = Page(DOCS / "papers" / "sparse-attention.md")
CLAIMS = tuple(Page(DOCS / "papers" / f"{paper}.md") for paper in ("dpq", "ant", "tensor-train"))
HEADER = next(line for line in FIVE_SEEDS.text.splitlines() if line.startswith("| ") and "method" in line)
IN_POINTS = {"accuracy", "auc", "hits in 10"}  # metrics that the page writes as percentages
TIMES = "\N{MULTIPLICATION SIGN}"


def read_sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "samples" / name / "results.json").read_text(encoding="utf-8"))
    return found


def is_rounded(written: str, value: float) -> bool:
    """Return whether a number in decimal places is the rounded value."""
    places = len(written.partition(".")[2])
    return abs(float(written.replace("\N{MINUS SIGN}", "-")) - value) <= 0.5 * 10.0**-places


def is_interval(written: tuple[str, str], value: dict[str, float], scale: float = 1) -> bool:
    return all(is_rounded(one, scale * value[key]) for one, key in zip(written, ("mean", "half"), strict=True))


def interval_of(differences: NDArray[np.float64]) -> dict[str, float]:
    """Return mean and half of the 95 % interval over five seeds."""
    assert len(differences) == 5
    return {"mean": differences.mean(), "half": 2.7764 * differences.std(ddof=1) / 5**0.5}  # t(0.975, 4)


def five_seed_rows() -> Iterator[Any]:
    sample = ""
    for task, method, ratio, difference, *_ in FIVE_SEEDS.table_rows(HEADER):
        sample = found[1] if (found := re.search(r"`samples/(\w+)`", task)) else sample
        yield pytest.param(sample, method, ratio.rstrip(TIMES), difference, id=f"{sample} {method} {ratio[:-1]}")


def claimed_rows() -> Iterator[Any]:
    for page in CLAIMS:
        rows = re.findall(rf"`(\w+)` (DPQ-VQ|DPQ-SX|ANT|TT) ([\d.]+){TIMES}: (\S+ ± [\d.]*\d)", page.text)
        assert len(rows) >= 5, page.path
        for row in rows:
            yield pytest.param(*row, id=f"{page.path.stem} {' '.join(row[:3])}")


@pytest.mark.parametrize(("sample", "method", "ratio", "difference"), [*five_seed_rows(), *claimed_rows()])
def test_five_seed_row_is_that_of_sample(sample: str, method: str, ratio: str, difference: str) -> None:
    run = read_sample(sample)
    mean, half = re.findall(r"[-+\N{MINUS SIGN}]?[\d.]+", difference)[:2]
    scale = 100 if run["metric"].lower() in IN_POINTS else 1
    assert any(
        row["method"].startswith(method.lower().replace("-", " "))
        and is_rounded(ratio, row["ratio"])
        and is_interval((mean, half), row["difference"], scale)
        for row in run["methods"]
    )


SAMPLES = ("ag_news", "amazon_video", "click_through", "multi30k", "ratings", "sst2", "wikitext2", "wikitext2_untied")
LESS_IS_BETTER = {"perplexity", "mean squared error"}


def spread(kind: str, figure: Callable[[Any, Any], float], samples: Sequence[str] = SAMPLES) -> tuple[float, float]:
    """Return the least and the largest figure of a kind of table, computed from its row and that of dense."""
    runs = [read_sample(name)["methods"] for name in samples]
    found = [figure(row, rows[0]) for rows in runs for row in rows if row["method"].startswith(kind)]
    return min(found), max(found)


def test_claims_have_costs_and_compression_of_the_samples() -> None:
    dpq, ant, tt = (page.text for page in CLAIMS)

    def time(row: Any, _: Any) -> float:
        return row["step cost"]

    small = ("sst2", "wikitext2", "wikitext2_untied")
    first, others = spread("dpq", time, small), spread("dpq", time, [name for name in SAMPLES if name not in small])
    assert "{:.2f} to {:.2f} in `sst2`, `wikitext2` and `wikitext2_untied`".format(*first) in dpq
    assert "{:.2f} to {:.2f} in the others".format(*others) in dpq
    memory = spread("dpq", lambda row, dense: row["step memory"] / dense["step memory"])
    assert "memory of a step, in times that of dense: {:.3f} to {:.3f} |".format(*memory) in dpq
    ranges = {name: spread("ant", time, [name]) for name in SAMPLES[:-1]}
    shown = [f"{low:.2f}{f' to {high:.2f}' if high > low else ''} in `{name}`" for name, (low, high) in ranges.items()]
    assert all(part in ant for part in shown), shown
    points = spread(
        "tt", lambda row, _: 100 * row["cut down"]["tt"]["mean"], ("ag_news", "amazon_video", "click_through", "sst2")
    )
    assert f"by {-points[1]:.0f} to {-points[0]:.0f} points" in tt, points


@pytest.fixture(scope="module")
def news_curves() -> dict[str, Any]:
    """Return the scores and the changes of codes of the sample during training."""
    found: dict[str, Any] = json.loads((ROOT / "samples" / "ag_news" / "curves.json").read_text(encoding="utf-8"))
    return found


def test_steps_to_an_accuracy_are_those_of_the_curves(news_curves: dict[str, Any]) -> None:
    steps = dict[str, int]()
    for method, seeds in news_curves["scores"].items():
        assert len(seeds) == 5
        means = np.mean([[score for _, score in curve] for curve in seeds], axis=0)
        reached = [step for (step, _), mean in zip(seeds[0], means, strict=True) if mean >= 0.87]
        steps[method.partition(",")[0]] = min(reached, default=0)
    assert steps.pop("tt") == 0
    assert "after [{ant} steps](#convergence), dense after {dense}, DPQ-SX {dpq sx}, DPQ-VQ {dpq vq}, TT".format(
        **steps
    ) in (DOCS / "papers" / "ant.md").read_text(encoding="utf-8")


def test_changes_of_codes_are_those_of_the_curves(news_curves: dict[str, Any]) -> None:
    first = {method.partition(",")[0]: curve[0][1] for method, curve in news_curves["changes"].items()}
    late = max(share for curve in news_curves["changes"].values() for _, share in curve[-10:])
    text = CLAIMS[0].text
    assert f"at most {100 * late:.0f} % change within 13 steps near the end" in text
    assert f"after {100 * first['dpq vq']:.0f} % (VQ) and {100 * first['dpq sx']:.0f} % (SX) at the start" in text


def test_verdict_on_sizes_is_that_of_the_heat_map() -> None:
    trials = json.loads((ROOT / "samples" / "ag_news" / "grid.json").read_text(encoding="utf-8"))["trials"]
    found = {(trial["method"], trial["seed"]): trial for trial in trials}

    def scores(variant: str, num_codes: int, num_groups: int) -> NDArray[np.float64]:
        method = f"dpq {variant}, K = {num_codes}, D = {num_groups}"
        return np.array([100 * found[method, seed]["test"] for seed in range(5)])

    def ratio(num_codes: int, num_groups: int) -> float:
        numbers = found[f"dpq vq, K = {num_codes}, D = {num_groups}", 0]["paper_numbers"]
        return float(found["dense", 0]["paper_numbers"] / numbers)

    claims, drawn = CLAIMS[0].text.partition("appendix E.1: small K")[2].split("\n", 1)
    sizes = f"{ratio(2, 128):.0f} times, minus K = 128 and D = 8 at {ratio(128, 8):.0f} times"
    assert f"[K = 2 and D = 128](#sizes-k-and-d) at {sizes}" in claims
    for variant in ("sx", "vq"):
        (written,) = re.findall(rf"{variant.upper()} (\S+) ± ([\d.]+)", claims)
        assert is_interval(written, interval_of(scores(variant, 2, 128) - scores(variant, 128, 8)))
        for groups in (8, 32, 128):
            assert scores(variant, 2, groups).mean() < min(scores(variant, k, groups).mean() for k in (8, 32, 128))
    means = [scores("vq", k, d).mean() for k in (8, 32, 128) for d in (8, 32, 128)]
    assert f"differ by at most {max(means) - min(means):.2f} points" in drawn
    for k in (8, 32, 128):
        assert scores("sx", k, 128).mean() < min(scores("sx", k, 8).mean(), scores("sx", k, 32).mean())


def test_steps_from_sx_to_vq_are_those_of_the_ablation() -> None:
    trials = json.loads((ROOT / "samples" / "click_through" / "sx.json").read_text(encoding="utf-8"))["trials"]

    def scores(method: str) -> NDArray[np.float64]:
        return np.array([100 * trial["test"] for trial in trials if trial["method"] == method])

    steps = ("dpq sx", "dpq sx, euclidean", "dpq sx, euclidean, tied", "dpq sx, euclidean, tied, tau = 4")
    rows = list(CLAIMS[0].table_rows("| SX | minus VQ | minus the line above |"))
    assert len(rows) == len(steps)
    vq, before = scores("dpq vq, K = 16, D = 32"), None
    for (_, beside, step), method in zip(rows, steps, strict=True):
        found = scores(method)
        assert is_interval(tuple(beside.split(" ± ")), interval_of(found - vq)), method
        assert step == "" if before is None else is_interval(tuple(step.split(" ± ")), interval_of(found - before))
        before = found
    (warmer,) = re.findall(r"4 in place of 1 gains (\S+) ± (\S+) points", CLAIMS[0].text)
    assert is_interval(warmer, interval_of(scores("dpq sx, tau = 4") - scores("dpq sx")))
    (gained,) = re.findall(r"this \[gains (\S+) points\]", DPQ.text)
    assert is_rounded(gained, (scores(steps[-1]) - scores(steps[0])).mean())


def test_claims_on_product_quantisation_are_those_of_the_samples() -> None:
    found = dict[str, list[str]]()
    for sample in SAMPLES:
        run = read_sample(sample)
        sign = -1 if run["metric"] in LESS_IS_BETTER else 1  # of what is better
        for row in run["methods"]:
            if row["method"].startswith("dpq vq"):
                mean, half = (row["cut down"]["pq"][part] for part in ("mean", "half"))
                answer = "as good" if abs(mean) <= half else "better" if sign * mean > 0 else "worse"
                found.setdefault(answer, []).append(f"{sample} {row['ratio']:.0f}")
    worse = (
        "`ag_news`, `amazon_video`, `ratings`, `multi30k` at 27 times, `wikitext2` at 29 times and `sst2` at 60 times"
    )
    assert f"worse than DPQ-VQ in {worse}, as good in `sst2` at 31 times, `wikitext2_untied`" in CLAIMS[0].text
    assert found == {
        "worse": [
            *(f"ag_news {n}" for n in (31, 61, 125)),
            *(f"amazon_video {n}" for n in (16, 31)),
            "multi30k 27",
            "ratings 16",
            "sst2 60",
            "wikitext2 29",
        ],
        "as good": [
            *(f"click_through {n}" for n in (16, 31)),
            "multi30k 15",
            "sst2 31",
            *(f"wikitext2_untied {n}" for n in (15, 29)),
        ],
        "better": ["wikitext2 15"],
    }


def test_term_of_nonzeros_in_nbant_is_that_of_the_sample() -> None:
    run = {row["method"]: row for row in read_sample("ratings")["methods"]}
    penalty = 1e-6  # of setting 2 of samples/ratings/claims.py
    assert run["nbant"]["setting"] == 2
    (term, error, half, five, twenty) = re.findall(
        r"nonzeros is (\S+): nbANT ends with (\S+) ± (\S+), ANT of 5 and 20 anchors with (\S+) and (\S+) ", ANT.text
    )[0]
    assert is_rounded(term, penalty * run["nbant"]["numbers"])
    assert is_interval((error, half), run["nbant"]["score"])
    assert is_rounded(five, run["ant, A = 5"]["score"]["mean"])
    assert is_rounded(twenty, run["ant, A = 20"]["score"]["mean"])
    objectives = re.findall(r"eq. 34 is (\S+) with 5 anchors and (\S+) with 20", ANT.text)[0]
    for written, anchors in zip(objectives, (5, 20), strict=True):
        row = run[f"ant, A = {anchors}"]
        entries = row["numbers"] - 2 * 16 * anchors  # without the anchors of both tables
        assert is_rounded(written, row["score"]["mean"] + penalty * entries + 2 * anchors * (3e-4 - penalty))


def test_ant_page_has_score_of_news_by_count_of_paper() -> None:
    found = re.search(r"([\d.]+) ± ([\d.]+) points below dense at (\d+) times fewer numbers", ANT.text)
    assert found
    mean, half, ratio = found.groups()
    row = next(row for row in read_sample("ag_news")["methods"] if row["method"] == "ant, A = 8")
    assert is_interval((f"-{mean}", half), row["difference"], 100)
    assert is_rounded(ratio, row["paper ratio"])


@pytest.mark.parametrize(("sample", "column"), [("ag_news", 0), ("wikitext2", 1)])
def test_readme_scores_are_those_of_sample(sample: str, column: int) -> None:
    run = read_sample(sample)
    scores = {row["method"]: row["score"] for row in run["methods"]}
    assert any(is_interval(found, scores["dense"]) for found in re.findall(r"dense (\S+) ± (\.\d+)", README.text))
    for method, _, *cells in README.table_rows("| method | a row is | news | language model |"):
        for ratio, mean, half in re.findall(rf"(\d+){TIMES} smaller: (\S+) ± (\S+)", cells[column]):
            assert any(
                row["method"].startswith(method.partition(",")[0].lower())
                and is_rounded(ratio, row["ratio"])
                and is_interval((mean, half), row["score"])
                for row in run["methods"]
            ), method


def test_scores_of_sparse_attention_are_those_of_samples() -> None:
    methods = {"softmax": "dense", "1.5-entmax": "entmax15 attention", "α-entmax, learned α": "learned attention"}  # noqa: RUF001
    header = "| activation | `multi30k` en→de, BLEU | density | `inflection`, accuracy in percent | density |"
    rows = list(SPARSE_ATTENTION.table_rows(header))
    assert [row[0] for row in rows] == list(methods)
    for sample, metric, columns in (("multi30k", "BLEU", (1, 2)), ("inflection", "accuracy", (3, 4))):
        run = {row["method"]: row["further"] for row in read_sample(sample)["methods"]}
        for row in rows:
            further = run[methods[row[0]]]
            score, density = (row[column] for column in columns)
            assert is_interval(tuple(score.split(" ± ")), further[metric]["score"]), row
            assert is_rounded(density.removesuffix(" %"), further["density"]["score"]["mean"]), row


def test_figures_of_calibration_are_those_of_the_sample() -> None:
    measured = json.loads((ROOT / "samples" / "calibrated" / "figures.json").read_text(encoding="utf-8"))["rows"]
    new = "with `--calibrate`"
    header = f"| model | tables by | KL divergence to the dense model | {new} | top-1 agreement | {new} |"
    rows = list(CALIBRATE.table_rows(header))
    assert len(rows) == 4
    for model, tables, *written in rows:
        counts = "without counts" not in tables
        row = next(row for row in measured if row["model"] == model and ("tiered, counts" in row["method"]) == counts)
        for metric, before, after in (("KL", *written[:2]), ("top-1", *written[2:])):
            assert is_rounded(before, row["before"][metric]), row
            assert is_rounded(after, row["after"][metric]["mean"]), row


def test_figures_of_fine_tuning_are_those_of_the_sample() -> None:
    measured = json.loads((ROOT / "samples" / "fine_tuned" / "figures.json").read_text(encoding="utf-8"))["rows"]
    new = "fine-tuned"
    header = f"| model | method | bytes | score | {new} | KL divergence | {new} | top-1 | {new} |"
    rows = list(FINE_TUNE.table_rows(header))
    assert len(rows) == len(measured) == 8
    for (model, method, nbytes, *written), row in zip(rows, measured, strict=True):
        assert (model, method.strip("`"), nbytes) == (row["model"], row["method"].split(":")[0], f"{row['bytes']:,}")
        for metric, before, after in zip(("score", "KL", "top-1"), written[::2], written[1::2], strict=True):
            assert is_rounded(before, row["before"][metric]), row
            assert is_rounded(after, row["after"][metric]["mean"]), row


TIERED_CASES = {
    "language model, output layer": ("words", "PTB output layer", "KL"),
    "language model, input table": ("words", "PTB input table", "KL"),
    "recommender GMF": ("items", "NCF GMF", "hits in 10"),
    "recommender MLP": ("items", "NCF MLP", "hits in 10"),
    "news": ("news", "AG News", "KL"),
    "sentence encoder MiniLM": ("sentences", "MiniLM", "cosine"),
    "word vectors of GloVe": ("vectors", "GloVe", "analogies"),
}
FLAT = ("trimming", "dpq", "dpq, no counts", "opq", "opq, no counts", "rows", "ant", "tt", "tr", "low_rank")


def tiered_means(task: str, ratio: int) -> dict[str, float]:
    """Return the mean figure of each method of `samples/tiers` that fits, by its name."""
    file, case, figure = TIERED_CASES[task]
    cells = json.loads((ROOT / "samples" / "tiers" / f"{file}.json").read_text(encoding="utf-8"))["cells"]
    found = dict[str, list[float]]()
    for cell in cells:
        if (cell["case"], cell["ratio"]) == (case, ratio) and "figures" in cell:
            found.setdefault(cell["method"], []).append(cell["figures"][figure])
    return {method: float(np.mean(figures)) for method, figures in found.items()}


def test_figures_of_tiered_tables_are_those_of_the_sample() -> None:
    rows = list(TIERED_TABLES.table_rows("| model and figure | 8x: tiered, best other | 16x | 32x |"))
    assert len(rows) == len(TIERED_CASES)
    won = 0
    for name, *written in rows:
        task, figure, *_ = name.rsplit(", ", 1) if "dense" not in name else name.rsplit(", ", 2)
        sign = 1 if "KL" in figure else -1
        scale = 1000 if "thousandths" in figure else 1
        for ratio, cell in zip((8, 16, 32), written, strict=True):
            means = tiered_means(task, ratio)
            best = min((method for method in FLAT if method in means), key=lambda method: sign * means[method])
            tiered, other = cell.split(", ")
            value, method = other.split(" ")
            assert method == f"`{best.partition(',')[0]}`", (name, ratio)
            assert is_rounded(value.strip("*"), scale * means[best]), (name, ratio)
            is_best = "tiered" in means and sign * means["tiered"] < sign * means[best]
            assert (tiered.startswith("**"), value.startswith("**")) == (is_best, not is_best and "tiered" in means)
            written_tiered = tiered.strip("*")
            fits = "tiered" in means
            assert is_rounded(written_tiered, scale * means["tiered"]) if fits else tiered == "does not fit"
            won += is_best
    assert f"Tiered tables are best in {won} of {3 * len(rows)} cells." in TIERED_TABLES.text


def test_figures_behind_next_layer_are_those_of_the_sample() -> None:
    rows = list(COMPRESSION_METHODS.table_rows("| KL divergence in millionths | 8x | 16x | 32x | 64x |"))
    methods = [re.findall(r"`(\w+)`", name)[0] for name, *_ in rows]
    assert methods == ["auto", "tiered", "dpq", "svd"]
    for ratio, *written in zip((8, 16, 32, 64), *(cells for _, *cells in rows), strict=True):
        means = tiered_means("news", ratio)
        assert all(is_rounded(one, 1e6 * means[method]) for one, method in zip(written, methods, strict=True))


def test_tiers_by_counts_of_another_domain_are_those_of_the_sample() -> None:
    (sentence,) = re.findall(r"With counts of WikiText-2 .*?\.(?= )", TIERED_TABLES.text)
    written = re.findall(r"\.\d+", sentence)
    tasks = ("language model, input table", "language model, output layer")
    means = [tiered_means(task, ratio)["tiered, other counts"] for task in tasks for ratio in (8, 16, 32)]
    assert all(is_rounded(one, mean) for one, mean in zip(written, means, strict=True)), (written, means)


def test_figures_of_trained_tiers_are_those_of_samples() -> None:
    header = "| sample | bytes | flat DPQ-VQ | tiers | tiers minus flat | tiers after training |"
    rows = list(TIERED_TRAINING.table_rows(header))
    assert len(rows) == 8
    for name, nbytes, flat, tiers, difference, after in rows:
        run = read_sample(re.findall(r"`samples/(\w+)`", name)[0])
        scale = 100 if run["metric"].lower() in IN_POINTS else 1
        groups = {"146,784": "D = 64", "77,488": "D = 32", "383,552": "D = 32", "1,265,632": "D = 32"}.get(
            nbytes, "D = 16"
        )
        trials = {
            method: [trial for trial in run["trials"] if trial["method"] == full]
            for method, full in (("flat", f"dpq vq, K = 16, {groups}"), ("tiers", f"tiers, as {groups}"))
        }
        assert {len(each) for each in trials.values()} == {5}
        assert {f"{trial['table_bytes']:,}" for trial in trials["flat"]} == {nbytes}
        assert all(
            abs(own["table_bytes"] / other["table_bytes"] - 1) < 0.006
            for own, other in zip(trials["tiers"], trials["flat"], strict=True)
        )
        scores = {method: np.array([trial["test"] for trial in each]) for method, each in trials.items()}
        apart = scores["tiers"] - scores["flat"]
        assert is_interval(tuple(difference.split(" ± ")), interval_of(apart), scale), name
        cut_down = np.array([trial["cut_down"]["tiers"] for trial in trials["tiers"]])
        if "untied" not in name or nbytes == "77,488":
            assert ((apart if scale == 100 else -apart) > 0).all()  # as the READMEs of the samples say: in every seed
        for written, found in ((flat, scores["flat"]), (tiers, scores["tiers"]), (after, cut_down)):
            assert is_rounded(written, scale * found.mean()), name


@pytest.mark.parametrize(
    ("sample", "beside"), [("click_through", ()), ("ratings", ()), ("sst2", ()), ("wikitext2_untied", ("wikitext2",))]
)
def test_intervals_in_readme_are_those_of_the_sample(sample: str, beside: tuple[str, ...]) -> None:
    run = read_sample(sample)
    scale = 100 if run["metric"].lower() in IN_POINTS else 1
    methods = [row for name in (sample, *beside) for row in read_sample(name)["methods"] if row["method"] != "dense"]
    for file in (ROOT / "samples" / sample).glob("sx.json"):
        methods += json.loads(file.read_text(encoding="utf-8"))["methods"][1:]
    intervals = [each for row in methods for each in (row["difference"], *row["cut down"].values())]
    page = TIERED_TRAINING.table_rows(
        "| sample | bytes | flat DPQ-VQ | tiers | tiers minus flat | tiers after training |"
    )
    quoted = [row[4].split(" ± ") for row in page if f"`samples/{sample}`" in row[0]]
    bullets = Page(ROOT / "samples" / sample / "README.md").text.partition("Differences are within a seed")[2]
    found = re.findall(r"(\d+\.\d+) ± (\d+\.\d+)", bullets)
    assert len(found) >= 6
    for mean, half in found:
        of_methods = any(
            is_rounded(mean, abs(scale * each["mean"])) and is_rounded(half, scale * each["half"]) for each in intervals
        )
        beside_flat = any(
            is_rounded(mean, abs(float(one[1:]))) and is_rounded(half, float(other)) for one, other in quoted
        )
        assert of_methods or beside_flat, (mean, half)


def test_tables_trained_beside_dpq_are_those_of_the_sample() -> None:
    methods = (
        "dpq vq, K = 16, D = 32",
        "smaller width, d = 4",
        "low rank, R = 4",
        "pq and fine-tuning, K = 16, D = 32",
        "opq and fine-tuning, K = 16, D = 16",
        "integers, 2 bits",
        "quotient-remainder",
        "frequent words",
        "hashing",
    )
    run = {row["method"]: row for row in read_sample("ag_news")["methods"]}
    rows = list(FIVE_SEEDS.table_rows("| table | ratio | accuracy beside dense, points |"))
    assert len(rows) == len(methods)
    for (_, ratio, difference), method in zip(rows, methods, strict=True):
        assert is_rounded(ratio.rstrip(TIMES), run[method]["ratio"]), method
        assert is_interval(tuple(difference.split(" ± ")), run[method]["difference"], 100), method


def test_sx_beside_trained_tiers_is_that_of_the_sample() -> None:
    (written,) = re.findall(r"flat DPQ-SX has (\S+) % hits", TIERED_TRAINING.text)
    run = {row["method"]: row["score"] for row in read_sample("amazon_video")["methods"]}
    other, tiers = run["dpq sx, K = 16, D = 32"], run["tiers, as D = 32"]
    assert is_rounded(written, 100 * other["mean"])
    assert abs(other["mean"] - tiers["mean"]) < tiers["half"]


def test_advice_on_draft_models_follows_from_the_sample() -> None:
    every = json.loads((ROOT / "samples" / "drafted" / "figures.json").read_text(encoding="utf-8"))["rows"]
    found = {(row["model"], row["ratio"], row["method"]): row for row in every}
    for model, ratio in {(row["model"], row["ratio"]) for row in every}:
        flat, tiered, trimmed = (
            found[model, ratio, method] for method in ("dpq, all ids", "tiered, all ids", "trimmed, 8 bits")
        )
        assert all(flat[figure]["mean"] < tiered[figure]["mean"] for figure in ("greedy", "sampled"))
        assert tiered["sampled"]["mean"] > trimmed["sampled"]["mean"]
        assert tiered["greedy"]["mean"] < trimmed["greedy"]["mean"]
        if ratio == 8:
            assert is_rounded("98", 100 * tiered["sampled"]["mean"])
        if ratio == 32:
            assert 97.5 < 100 * trimmed["greedy"]["mean"] < 99


def test_figures_of_draft_models_are_those_of_the_sample() -> None:
    every = json.loads((ROOT / "samples" / "drafted" / "figures.json").read_text(encoding="utf-8"))["rows"]
    measured = [row for row in every if row["ratio"] != 16]
    header = "| model | bytes | output layer | ids | greedy | sampled | tokens |"
    rows = list(DRAFT_MODELS.table_rows(header))
    assert len(rows) == len(measured)
    for (model, nbytes, method, ids, *written), row in zip(rows, measured, strict=True):
        assert (model, nbytes, method) == (row["model"], f"1/{row['ratio']}", row["method"])
        assert ids.split(" or ") == [f"{size:,}" for size in sorted(set(row["ids"]))]
        for text, name in zip(written, ("greedy", "sampled", "tokens"), strict=True):
            assert is_rounded(text, row[name]["mean"]), row


def mean_of(row: dict[str, Any], metric: str) -> float:
    """Return a mean score of which higher is better."""
    score: float = row["score"]["mean"]
    return -score if metric in LESS_IS_BETTER else score


def test_dpq_page_names_better_variant_of_each_sample() -> None:
    listed = {
        sample: variant.lower()
        for variant, samples in DPQ.table_rows("| better mean score | samples |")
        for sample in re.findall(r"`samples/(\w+)`", samples)
    }
    tried = {path.parent.name for path in (ROOT / "samples").glob("*/results.json")}
    assert set(listed) == {
        name for name in tried if any("dpq sx" in row["method"] for row in read_sample(name)["methods"])
    }
    for sample, variant in listed.items():
        run = read_sample(sample)
        means = {row["method"]: mean_of(row, run["metric"]) for row in run["methods"]}
        gains = [means[name.replace("sx", "vq")] - means[name] for name in means if name.startswith("dpq sx")]
        assert gains, sample
        assert all((gain > 0) == (variant == "vq") for gain in gains), sample


def test_figures_of_anchor_search_are_those_of_the_sample() -> None:
    measured = json.loads((ROOT / "samples" / "anchors" / "figures.json").read_text(encoding="utf-8"))["rows"]
    columns = '`trend="sizes"` | anchors | `trend="epochs"` | anchors'
    rows = list(ANT.table_rows(f"| rows | begins with | {columns} | sweep |"))
    names = {"sums of 2 of 6 vectors, 100 × 8": "made rows", "handwritten digits, 200 × 64": "digits"}  # noqa: RUF001
    assert [(names[row[0]], int(row[1])) for row in rows] == [
        (case, start) for case in names.values() for start in (1, 10)
    ]
    for name, start, *written in rows:
        found = {(row["trend"], row["start"]): row for row in measured if row["rows"] == names[name]}
        for trend, objective, anchors in (("sizes", *written[:2]), ("epochs", *written[2:4])):
            row = found[trend, int(start)]
            assert is_interval(tuple(objective.split(" ± ")), row["objective"]), row
            assert anchors == span(row["anchors"]), row
        assert written[4] == span(found["sweep", None]["anchors"])


def test_figures_of_the_stream_are_those_of_the_sample() -> None:
    measured = json.loads((ROOT / "samples" / "anchors" / "stream.json").read_text(encoding="utf-8"))["rows"]
    found = {(row["start"], row["search"]): row for row in measured}
    rows = list(ANT.table_rows("| begins with | anchors after the stream | accuracy | accuracy without a search |"))
    assert [int(start) for start, *_ in rows] == [2, 10]
    for start, anchors, *written in rows:
        assert anchors == span([each[-1] for each in found[int(start), True]["anchors"]])
        for one, is_searching in zip(written, (True, False), strict=True):
            assert is_interval(tuple(one.split(" ± ")), found[int(start), is_searching]["accuracy"]), start
    drawn = found[10, True]["anchors"][0]
    assert (drawn[0], max(drawn), min(drawn), drawn[-1]) == (10, 12, 8, 9)


def span(numbers: list[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"
