"""A validation report without failures, built by hand."""

from dataclasses import replace

from edge_embed.report.results.byte_parts import SizePart
from edge_embed.report.results.validation import (
    Check,
    LatencyResult,
    LatencySection,
    LoadedSize,
    ModelResult,
    OutputResult,
    PathResult,
    SizeResult,
    TableResult,
    ValidationReport,
)

GOOD = Check("stored rows", "passed", "all of them")
OUTPUT = OutputResult("logits", "passed", 1e-7, 1e-8, 5e-8, 1e-5, 1e-4, 100, "all 100 values close", (60, *[2] * 14))
PATH = PathResult("portable body", "passed", "1 output(s)", (OUTPUT,))


def make_report(**changes) -> ValidationReport:
    table = TableResult("word", "dpq", 50, 12, 2400, 400, 6.0, (GOOD,), (GOOD,))
    parts = (SizePart("word", "codes", 400), SizePart(None, "graph", 500))
    loaded = (LoadedSize("all", True, 810),)
    sizes = SizeResult({"m.onnx": 900}, 2900, 900, 700, 5000, "", 800, 400, 77, loaded, parts, 123)
    measured = LatencyResult("table word", 1, "uniform", "empty call", 1.25, 1.2, 1.3, 4.0, "", (1.2, 1.25, 1.3))
    skipped = LatencyResult("table word", 1, "uniform", "dense Gather", None, None, None, None, "too large")
    report = ValidationReport(
        file="m.onnx",
        seed=0,
        structure=(GOOD,),
        tables=(table,),
        model=ModelResult(("the example",), (), (PATH,), GOOD),
        sizes=sizes,
        latency=LatencySection({"processor": "some"}, "how", (measured, skipped)),
    )
    return replace(report, **changes)
