// node npm_check.mjs INDEX WASM: calls every use of a table of three rows, and prints the version of the kernels.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [index, wasm] = process.argv.slice(2);
const { EdgeEmbedError, loadKernels } = await import(pathToFileURL(index));
const kernels = await loadKernels({ wasm: readFileSync(wasm) });
const rows = [1, 2, 10, 20, 1, 2, 30, 40, 7, 8, 50, 60];

const codes = [0x0, 0x4, 0xb]; // (0, 0), (0, 1), (3, 2) with two bits each
const values = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50, 60, 70, 80);
const tables = await kernels.openTables(packed(), { verify: false });
const table = tables.get("words");
assert.deepEqual([...table.lookup([0, 1, 2])], rows);
assert.deepEqual([...table.bag([0, 2], [0, 2])], [8, 10, 60, 80]);
assert.deepEqual([...table.logits(Float32Array.of(1, 0, 0, 1))], [21, 41, 67]);
assert.deepEqual(table.topk(Float32Array.of(1, 0, 0, 1), 2), {
  values: Float32Array.of(67, 41),
  ids: BigInt64Array.of(2n, 1n),
});
assert.throws(() => table.lookup([0, 3]), EdgeEmbedError);
assert.throws(() => table.lookup([-1]), EdgeEmbedError);
table.free();
assert.equal(kernels.bytesUsed, 0);
console.log(kernels.version);

function packed() {
  const manifest = {
    format_version: 1,
    tables: {
      words: {
        ...{ method: "dpq", num_embeddings: 3, embedding_dim: 4, padding_idx: null, value_type: "float32" },
        attributes: { bits: 2, num_codes: 4, num_groups: 2, share_subspaces: false },
        ...{ sha256: { codes: "", values: "" }, row_scale: null, group_widths: null },
      },
    },
  };
  const header = {
    __metadata__: { edge_embed: JSON.stringify(manifest) },
    "words/values": { dtype: "F32", shape: [2, 4, 2], data_offsets: [0, 64] },
    "words/codes": { dtype: "U8", shape: [3, 1], data_offsets: [64, 67] },
  };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + 67);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  bytes.set(new Uint8Array(values.buffer), 8 + text.length);
  bytes.set(codes, 8 + text.length + 64);
  return bytes;
}
