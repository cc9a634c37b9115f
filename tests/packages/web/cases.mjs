// Calls of the package, compared bit by bit with results of the native library: the same in Node.js, a page and a worker.

const text = (encoded, Values) => new Values(Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0)).buffer);

// `read(name)` returns the bytes of a file. Returns the version, the number of calls, and the calls that differ.
export async function runCases({ loadKernels }, read) {
  const calls = JSON.parse(new TextDecoder().decode(await read("calls.json")));
  const bytes = await read("tables.safetensors");
  const different = [];
  let version;
  for (const simd of [true, false]) {
    const kernels = await loadKernels({ simd });
    const tables = await kernels.openTables(bytes);
    const before = kernels.bytesUsed;
    for (const call of calls) {
      const got = run(tables.get(call.table), call);
      if (JSON.stringify(got.map(encoded)) !== JSON.stringify(call.expected)) {
        different.push({ simd, table: call.table, use: call.use, mode: call.mode });
      }
    }
    if (kernels.bytesUsed !== before) different.push({ simd, leaked: kernels.bytesUsed - before });
    for (const table of tables.values()) table.free();
    if (kernels.bytesUsed !== 0) different.push({ simd, left: kernels.bytesUsed });
    version = kernels.version;
  }
  return { version, calls: 2 * calls.length, different };
}

function run(table, { use, ids, offsets, mode, weights, hidden, k, bias }) {
  if (use === "lookup") return [table.lookup(text(ids, BigInt64Array))];
  if (use === "bag") {
    const factors = weights && text(weights, Float32Array);
    return [table.bag(text(ids, BigInt64Array), text(offsets, BigInt64Array), { mode, weights: factors })];
  }
  const states = text(hidden, Float32Array);
  if (use === "logits") return [table.logits(states)];
  const best = table.topk(states, k, { bias: bias && text(bias, Float32Array) });
  return [best.values, best.ids];
}

function encoded(array) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
