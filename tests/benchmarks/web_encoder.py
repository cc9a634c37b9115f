"""Time to the first vector of the page with a static sentence encoder, in fresh headless browsers.

``python tests/benchmarks/web_encoder.py FOLDER`` reads the folder of ``samples/make_sentence_page.py``. It prints the
bytes that the page requests, the milliseconds from the start of the navigation, which include the transfer on this
machine, and those of 1,000 sentences.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from edge_embed.targets.web.browser import open_page

RUNS = 7
TIME_LIMIT = 120


def main(page: Path) -> None:
    """Open the page several times, with and without the files in memory, and print medians and ranges."""
    runs = [{kind: open_once(page, kind) for kind in ("", " data-memory")} for _ in range(RUNS)]
    print(runs[0][""]["browser"])
    print(f"{runs[0]['']['bytes']:,} bytes requested, {RUNS} browsers")
    for what, kind, key in (
        ("first vector after navigation", "", "first"),
        ("first vector after download", " data-memory", "first"),
        ("1,000 sentences", " data-memory", "thousand"),
    ):
        times = [run[kind][key] for run in runs]
        print(f"{what:32}{statistics.median(times):8.1f} ms ({min(times):.1f} to {max(times):.1f})")


def open_once(page: Path, kind: str) -> dict[str, Any]:
    """Return the result of a new browser."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        html = (page / "index.html").read_text(encoding="utf-8")
        html = html.replace('src="app.js"', 'src="web_encoder.mjs"').replace('lang="en"', f'lang="en"{kind}')
        (folder / "page.html").write_text(html, encoding="utf-8")
        files = {path.relative_to(page).as_posix(): path for path in page.rglob("*") if path.is_file()}
        files |= {"page.html": folder / "page.html", "web_encoder.mjs": Path(__file__).with_suffix(".mjs")}
        open_page(files, {"result.json": folder / "result.json"}, TIME_LIMIT)
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return result


if __name__ == "__main__":
    main(Path(sys.argv[1]))
