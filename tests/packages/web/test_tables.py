"""Every use of every method and type has the bits of the native kernels, with SIMD and without."""

import json
import shutil

import pytest
from web_cases import HERE

import edge_embed
from edge_embed.targets.web.browser import browser_lacks, open_page
from edge_embed.targets.web.package import SCRIPTS

pytestmark = pytest.mark.slow
IN_NODE = """
import { readFileSync } from "node:fs";
import * as web from "edge-embed-web";
import { runCases } from "./cases.mjs";

console.log(JSON.stringify(await runCases(web, (name) => readFileSync(`${process.argv[2]}/${name}`))));
"""


@pytest.fixture
def sound(cases):
    """Return the result of a run without differences."""
    calls = len(json.loads((cases / "calls.json").read_text()))
    return {"version": edge_embed.__version__, "calls": 2 * calls, "different": []}


def test_node_has_the_bits_of_native_kernels(project, cases, run_node, sound):
    shutil.copy2(HERE / "cases.mjs", project)
    assert run_node(IN_NODE, cases) == sound


def test_page_and_worker_have_the_bits_of_native_kernels(project, cases, tmp_path, sound):
    if lacks := browser_lacks():
        pytest.skip(f"{lacks[0].what}: {lacks[0].remedy}")
    installed = project / "node_modules" / "edge-embed-web"
    files = {f"edge-embed-web/{path.name}": path for path in installed.iterdir()}
    files |= {name: HERE / name for name in ("page.mjs", "worker.mjs", "cases.mjs")}
    files |= {name: cases / name for name in ("calls.json", "tables.safetensors")}
    files["page.html"] = SCRIPTS / "page.html"
    open_page(files, {"result.json": tmp_path / "result.json"}, 120)
    assert json.loads((tmp_path / "result.json").read_text()) == {"page": sound, "worker": sound}


MANY = """
import { readFileSync } from "node:fs";
import { loadKernels } from "edge-embed-web";

const results = {};
for (const simd of [true, false]) {
  const kernels = await loadKernels({ simd });
  const tables = await kernels.openTables(readFileSync(process.argv[2]));
  for (const [name, table] of tables) {
    const ids = Int32Array.from({ length: 9001 }, (_, i) => (i * 7919) % table.rows);
    const rows = table.lookup(ids);
    const each = Array.from({ length: table.rows }, (_, id) => table.lookup([id]));
    const isSame = (id, i) => each[id].every((number, column) => Object.is(number, rows[i * table.columns + column]));
    results[`${name} ${simd}`] = ids.every(isSame);
    ids[8999] = table.rows;
    try {
      table.lookup(ids);
    } catch ({ message }) {
      results[`${name} ${simd}`] &&= message.startsWith("ids: position 8999: got");
    }
  }
}
console.log(JSON.stringify(results));
"""


def test_rows_of_many_ids_are_those_of_single_ids(run_node, cases):
    """Kernels of tensor trains sort blocks of thousands of ids."""
    results = run_node(MANY, cases / "tables.safetensors")
    assert len(results) > 20
    assert all(results.values()), results
