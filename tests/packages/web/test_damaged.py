"""Damaged files and wrong arguments are errors that say what to do, and no memory stays in use."""

import pytest
from web_cases import HERE

pytestmark = pytest.mark.slow
BAD_CALLS = """
import { readFileSync } from "node:fs";
import { EdgeEmbedError, loadKernels } from "edge-embed-web";

const kernels = await loadKernels();
const tables = await kernels.openTables(readFileSync(process.argv[2]));
const table = tables.get("dpq.float32");
const states = new Float32Array(40);
const transferred = (array) => (structuredClone(array, { transfer: [array.buffer] }), array);
const calls = {
  "id": () => table.lookup([0, 130]),
  "negative id": () => table.lookup(Int32Array.of(5, -1)),
  "id of 64 bits": () => table.lookup(BigInt64Array.of(2n ** 62n)),
  "type of ids": () => table.lookup(Float32Array.of(1)),
  "fraction": () => table.lookup([0.5]),
  "offsets": () => table.bag([1, 2], [0, 2, 1, 2]),
  "last offset": () => table.bag([1, 2], [0, 1]),
  "mode": () => table.bag([1], [0, 1], { mode: "median" }),
  "weights": () => table.bag([1], [0, 1], { mode: "max", weights: Float32Array.of(1) }),
  "hidden": () => table.logits(new Float32Array(41)),
  "type of hidden": () => table.logits([1]),
  "k": () => table.topk(states, 131),
  "bias": () => table.topk(states, 1, { bias: new Float32Array(2) }),
  "out": () => table.lookup([1], { out: new Float32Array(41) }),
  "ordered id": () => tables.get("tt.ordered").lookup([60]),
  "null for options": () => table.lookup([1], null),
  "options of another type": () => table.topk(states, 1, "bias"),
  "transferred ids": () => table.lookup(transferred(Int32Array.of(1))),
  "transferred out": () => table.lookup([], { out: transferred(new Float32Array(0)) }),
  "transferred file": () => kernels.openModel(transferred(new Uint8Array(9))),
  "external data": () => kernels.openModel(new Uint8Array(9), { externalData: [null] }),
  "freed": () => (table.free(), table.lookup([1])),
};
const messages = {};
for (const [name, call] of Object.entries(calls)) {
  try {
    call();
  } catch (error) {
    messages[name] = `${error instanceof EdgeEmbedError ? "" : "not ours: "}${error.message}`;
  }
}
console.log(JSON.stringify(messages));
"""
MESSAGES = {
    "id": "ids: position 1: got 130, expected 0 to 129: pass rows of the table",
    "negative id": "ids: position 1: got -1, expected 0 to 129: pass rows of the table",
    "id of 64 bits": "ids: position 0: got 4611686018427387904, expected 0 to 129: pass rows of the table",
    "type of ids": "ids: got Float32Array of 1 values, expected Int32Array, BigInt64Array or an array of integers: "
    "convert it with Int32Array.from",
    "fraction": "ids: position 0: got 0.5, expected an integer: round it, or look for the wrong one",
    "offsets": "offsets: position 2: got 1, expected integers from 0 to 2, the number of ids, that never decrease: "
    "sort the bags",
    "last offset": "offsets: got [0, 1], expected the start of each bag and the number of ids: pass 0, ..., 2",
    "mode": 'mode: got "median", expected one of sum, mean, max: leave it out for sum',
    "weights": 'weights: got weights with mode max, expected mode "sum": multiply rows of lookup() instead',
    "hidden": "hidden: got 41 numbers, expected a multiple of 40, the columns of the table: pass whole states",
    "type of hidden": "hidden: got [1], expected Float32Array: use Float32Array.from",
    "k": "k: got 131, expected an integer from 1 to 130: pass a smaller one",
    "bias": "bias: got 2 numbers, expected 130: pass as many",
    "out": "out: got 41 numbers, expected 40: pass as many",
    "ordered id": "ids: position 0: got 60, expected 0 to 59: pass rows of the table",
    "null for options": "options: got null, expected an object such as { out }: leave it out for none",
    "options of another type": 'options: got "bias", expected an object such as { out }: leave it out for none',
    "transferred ids": "ids: got an array whose memory was transferred, expected one with its content: "
    "pass a copy to the other thread, or call this first",
    "transferred out": "out: got an array whose memory was transferred, expected one with its content: "
    "pass a copy to the other thread, or call this first",
    "transferred file": "bytes: got an array whose memory was transferred, expected one with its content: "
    "pass a copy to the other thread, or call this first",
    "external data": "externalData: got [null], expected a list: pass [{ path, data }] as for onnxruntime-web",
    "freed": "table: got a freed table, expected one in use: call free() last",
}


def test_wrong_argument_is_an_error_with_expected_values(run_node, cases):
    assert run_node(BAD_CALLS, cases / "tables.safetensors") == MESSAGES


@pytest.mark.parametrize(("kind", "verify"), [("packed", False), ("packed", True), ("onnx", False)])
def test_damaged_file_opens_or_is_refused(project, run_node, cases, exported, kind, verify):
    file = cases / "tables.safetensors" if kind == "packed" else exported / "bags.onnx"
    source = (HERE / "damaged.mjs").read_text()
    outcome = run_node(source, file, kind, 150, str(verify).lower())
    assert outcome["others"] == []
    assert outcome["refused"] >= 150  # all truncated ones
    # A changed digit may be the one that it was.
    assert (outcome["opened"] > 60) is not verify


GROWTH = """
import { readFileSync } from "node:fs";
import { loadKernels } from "edge-embed-web";

const kernels = await loadKernels();
const bytes = readFileSync(process.argv[2]);
const used = [];
for (let round = 0; round < 3; ++round) {
  const tables = await kernels.openTables(bytes);
  const table = tables.get("dpq.float32.wide");
  const ids = Int32Array.from({ length: 40_000 * (round + 1) }, (_, i) => i % table.rows);
  const rows = table.lookup(ids); // 5 MB and more, which the memory has to grow for
  const one = table.lookup([ids.at(-1)]);
  used.push(rows.subarray(-table.columns).every((number, i) => number === one[i]) && rows.length === ids.length * 32);
  for (const each of tables.values()) each.free();
  used.push(kernels.bytesUsed);
}
console.log(JSON.stringify(used));
"""


def test_memory_grows_and_is_released(run_node, cases):
    assert run_node(GROWTH, cases / "tables.safetensors") == [True, 0] * 3


NO_SIMD = """
import { EdgeEmbedError, loadKernels } from "edge-embed-web";

const validate = WebAssembly.validate;
WebAssembly.validate = () => false;
const found = await loadKernels().then(({ simd }) => simd);
const messages = [];
for (const wasm of [Uint8Array.of(1, 2), new URL("file:///nowhere/kernels.wasm")]) {
  await loadKernels({ wasm }).catch((error) => messages.push([error instanceof EdgeEmbedError, error.message]));
}
console.log(JSON.stringify([found, messages]));
"""


def test_scalar_module_is_chosen_where_simd_is_unknown_and_bad_modules_are_refused(run_node):
    simd, messages = run_node(NO_SIMD)
    assert simd is False
    assert [ours for ours, _ in messages] == [True, True]
    assert all("cannot be compiled" in text and "pass the address of one as `wasm`" in text for _, text in messages)
