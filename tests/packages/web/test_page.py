"""Programs of the page about the package print what it states."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edge_embed.targets.target import NotRunError
from edge_embed.targets.web.browser import browser_lacks, open_page
from edge_embed.targets.web.package import NODE_ENTRY, fetch_runtime

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[3] / "docs" / "deployment" / "web-package.md").read_text()
(HTML,) = re.findall(r"```html\n(.*?)```", PAGE, re.DOTALL)
# Waits until the text of the page changes.
WAIT = """
<script type="module">
  globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());
  globalThis.onerror = (message) => fetch("error", { method: "PUT", body: String(message) });
  globalThis.onunhandledrejection = ({ reason }) => globalThis.onerror(reason);
  while (!document.body.textContent.endsWith("numbers")) await new Promise((resolve) => setTimeout(resolve, 10));
  await fetch("result.json", { method: "PUT", body: JSON.stringify(document.body.textContent) });
</script>
"""
PROGRAMS = re.findall(r"```js package\n(.*?)```", PAGE, re.DOTALL)


def run(project: Path, folder: Path, source: str) -> str:
    (project / "page.mjs").write_text(source)
    command = ["node", str(project / "page.mjs")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_program_of_packed_file_prints_its_output(project, cases):
    printed = run(project, cases, PROGRAMS[0])
    assert f"```text\n{printed}```" in PAGE


def test_program_of_exported_file_prints_scores(project, exported, tmp_path):
    try:
        runtime = fetch_runtime(300) / NODE_ENTRY
    except NotRunError as error:
        pytest.skip(str(error))
    shutil.copyfile(exported / "bags.onnx", tmp_path / "model.onnx")
    program = PROGRAMS[1].replace('"onnxruntime-web"', f'"{runtime.as_uri()}"') + "process.exit();\n"
    assert run(project, tmp_path, program) == "4 scores\n"


def test_html_with_an_import_map_shows_rows(project, cases, tmp_path):
    if lacks := browser_lacks():
        pytest.skip(f"{lacks[0].what}: {lacks[0].remedy}")
    (tmp_path / "page.html").write_text(f"<!doctype html><body></body>{HTML}{WAIT}")
    installed = project / "node_modules" / "edge-embed-web"
    files = {f"edge-embed-web/{path.name}": path for path in installed.iterdir()}
    files |= {"page.html": tmp_path / "page.html", "tables.safetensors": cases / "tables.safetensors"}
    open_page(files, {"result.json": tmp_path / "result.json"}, 60)
    assert json.loads((tmp_path / "result.json").read_text()).endswith(" numbers")


def test_page_states_the_sizes_of_the_modules(project):
    for name in ("kernels-simd.wasm", "kernels-scalar.wasm"):
        size = (project / "node_modules" / "edge-embed-web" / name).stat().st_size
        assert f"| `{name}` | {size:,} |" in PAGE
