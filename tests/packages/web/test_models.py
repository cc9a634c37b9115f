"""Exported models: tables in the package, other nodes in onnxruntime-web, and messages for models that do not fit."""

import onnx
import pytest
from onnx import helper

from edge_embed.targets.target import NotRunError
from edge_embed.targets.web.package import NODE_ENTRY, fetch_runtime

pytestmark = pytest.mark.slow
COMPARE = """
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { loadKernels } from "edge-embed-web";

const [runtime, folder, name] = process.argv.slice(2);
const ort = await import(pathToFileURL(runtime));
ort.env.logLevel = "fatal";
const data = `${folder}/${name}.onnx.data`;
const externalData = existsSync(data) ? [{ path: `${name}.onnx.data`, data: readFileSync(data) }] : [];
const bytes = readFileSync(`${folder}/${name}.onnx`);
const kernels = await loadKernels();
const model = kernels.openModel(bytes, { externalData });
const options = { externalData, logSeverityLevel: 4 };
const whole = await ort.InferenceSession.create(bytes, options);
const session = await model.createSession(ort, options);
const feeds = [[3, [17n, 4n, 256n, 3n, 0n, 99n]], [2, [1n, 2n, 0n, 0n]], [3, [0n, 1n, 299n]]];
const results = [];
const givens = feeds.map(([length, ids]) => ({
  ids: new ort.Tensor("int64", BigInt64Array.from(ids), [ids.length / length, length]),
}));
const together = await Promise.all(givens.map((given) => session.run(given)));
for (const [number, given] of givens.entries()) {
  const expected = await whole.run(given);
  const got = number ? await session.run(given) : together[number];
  for (const [output, { type, dims, data }] of Object.entries(expected)) {
    const distance = Math.max(0, ...Array.from(data, (x, i) => Math.abs(Number(x) - Number(got[output].data[i]))));
    results.push(type === got[output].type && `${dims}` === `${got[output].dims}` && distance < 1e-6);
  }
}
const refused = [];
const refuse = ({ name, message }) => refused.push([name, message]);
const { ids } = givens[0];
const narrow = new ort.Tensor("int32", Int32Array.of(1, 2), [2]);
const flat = new ort.Tensor("int64", ids.data, [ids.data.length]);
for (const wrong of [{}, { ids, other: ids }, null, { ids: [1, 2] }, { ids: narrow }, { ids: flat }]) {
  await session.run(wrong).catch(refuse);
}
await model.createSession({}).catch(refuse);
const large = new ort.Tensor("int64", BigInt64Array.of(10_000n), [1, 1]);
await session.run({ ids: large }).catch(refuse);
const parts = Object.entries(model.parts).map(([part, { length }]) => [part, length]);
const sizes = { whole: bytes.length, parts: parts.reduce((total, [, length]) => total + length, 0) };
const made = parts.filter(([, length]) => length).map(([part]) => part);
await session.release();
await session.release();
await session.run(givens[0]).catch(refuse);
model.free();
const tables = [...model.tables.values()].map(({ name, method, rows, columns }) => [name, method, rows, columns]);
console.log(JSON.stringify({ results, refused, sizes, made, tables, left: kernels.bytesUsed }));
process.exit(); // threads of the engine would keep it alive
"""


@pytest.mark.parametrize(
    ("name", "outputs", "table", "parts"),
    [
        ("rows", 2, ["words", "dpq", 600, 48], ["rest"]),
        ("bags", 1, ["words", "ant", 300, 24], ["before", "rest"]),
        ("suggestions", 3, ["words", "tt", 300, 32], ["rest", "after"]),
        ("highlights", 4, ["words", "dpq", 600, 48], ["rest"]),
    ],
)
def test_session_has_the_outputs_of_the_whole_model(run_node, exported, name, outputs, table, parts):
    try:
        runtime = fetch_runtime(300) / NODE_ENTRY
    except NotRunError as error:
        pytest.skip(str(error))
    result = run_node(COMPARE, runtime, exported, name)
    assert result["results"] == [True] * outputs * 3
    (*_, (_, by_table), _) = result["refused"]
    origin = by_table.partition(": ids")[0]
    assert origin.startswith("node ")
    expected, rows = "expected a tensor int64 [any, any]", f"expected 0 to {table[2] - 1}"
    assert origin.endswith("computes from its inputs") is (name == "bags")
    assert result["refused"] == [
        ["EdgeEmbedError", 'input "ids": got none, expected a tensor: pass one for each of inputNames'],
        ["EdgeEmbedError", 'input "other": got a tensor, expected one of ids: leave it out'],
        ["EdgeEmbedError", "feeds: got null, expected an object: pass tensors by name of the input"],
        *(
            ["EdgeEmbedError", f'input "ids": got {got}, {expected}: convert it, or change its dims']
            for got in ("[1, 2]", "int32 [2]", "int64 [6]")
        ),
        [
            "EdgeEmbedError",
            'ort: got [object Object], expected the module onnxruntime-web: import * as ort from "onnxruntime-web"',
        ],
        ["EdgeEmbedError", f"{origin}: ids: position 0: got 10000, {rows}: pass rows of the table"],
        ["EdgeEmbedError", "session: got a released session, expected one in use: call release() last"],
    ]
    assert result["tables"] == [table]
    assert result["left"] == 0
    assert result["made"] == parts
    if name != "rows":  # whose tables are not in the file
        assert result["sizes"]["parts"] < result["sizes"]["whole"] - 5000


OPEN = """
import { readFileSync } from "node:fs";
import { EdgeEmbedError, loadKernels } from "edge-embed-web";

const kernels = await loadKernels();
const messages = process.argv.slice(2).map((path) => {
  try {
    kernels.openModel(readFileSync(path));
    return "opened";
  } catch (error) {
    return `${error instanceof EdgeEmbedError ? "" : "not ours: "}${error.message}`;
  }
});
console.log(JSON.stringify([messages, kernels.bytesUsed]));
"""


def test_model_that_does_not_fit_is_refused_with_the_node(run_node, exported, tmp_path):
    def changed(name, source, change):
        model = onnx.load(exported / source)
        change(model.graph)
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    def look_up_rows(graph):
        (node,) = (node for node in graph.node if node.op_type == "TTEmbedding")
        graph.node.append(helper.make_node("Cast", [node.output[0]], ["more_ids"], to=7))
        graph.node.append(node)
        graph.node[-1].input[0], graph.node[-1].output[0] = "more_ids", "more_rows"

    def compute_core(graph):
        (node,) = (node for node in graph.node if node.op_type == "TTEmbedding")
        graph.node.insert(0, helper.make_node("Identity", [node.input[1]], ["copied"]))
        node.input[1] = "copied"

    def remove_nodes(graph):
        del graph.node[:]

    paths = [
        changed("rows_of_rows.onnx", "suggestions.onnx", look_up_rows),
        changed("computed.onnx", "suggestions.onnx", compute_core),
        changed("empty.onnx", "suggestions.onnx", remove_nodes),
        exported / "rows.onnx",
        exported / "model.pt",
    ]
    messages, used = run_node(OPEN, *paths)
    assert used == 0
    expected = [
        "which another table computes, expected ids that need no rows",
        'got "copied", which the graph computes, expected a stored tensor',
        "got a model without nodes of edge-embed",
        'got no external data, expected "rows.onnx.data": pass externalData',
        "file: ",
    ]
    for message, part in zip(messages, expected, strict=True):
        assert part in message
        assert not message.startswith("not ours")
