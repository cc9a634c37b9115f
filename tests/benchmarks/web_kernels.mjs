// Times each call of the kernels and of the body in turns, and checks that their results agree.

import { loadKernels } from "./edge-embed-web/index.js";
import * as ort from "./ort.mjs";

globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());
const read = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
// Median and smallest time.
const summary = (times) => times.sort((a, b) => a - b) && [times[times.length >> 1], times[0]];

async function timed(step, times) {
  const start = performance.now();
  const result = await step();
  times.push(performance.now() - start);
  return result;
}

async function compare(kernels, { table: name, use, model }, { columns, ids, rounds, rows }) {
  const bytes = await read(model);
  const opened = kernels.openModel(bytes);
  const [table] = opened.tables.values();
  const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
  const isLookup = use === "lookup";
  const given = isLookup
    ? BigInt64Array.from({ length: ids }, () => BigInt(Math.floor(Math.random() * rows)))
    : Float32Array.from({ length: columns }, () => Math.random() - 0.5);
  const [input] = session.inputNames;
  const tensor = new ort.Tensor(isLookup ? "int64" : "float32", given, isLookup ? [ids] : [1, columns]);
  const out = new Float32Array(isLookup ? ids * columns : rows);
  const times = { kernels: [], body: [] };
  for (let round = -5; round < rounds; ++round) {
    const kept = round < 0 ? { kernels: [], body: [] } : times;
    await timed(() => (isLookup ? table.lookup(given, { out }) : table.logits(given, { out })), kept.kernels);
    const results = await timed(() => session.run({ [input]: tensor }), kept.body);
    const expected = results[session.outputNames[0]].data;
    if (!out.every((number, i) => Math.abs(number - expected[i]) < 1e-5)) throw new Error(`${name}: ${use} differs`);
  }
  opened.free();
  await session.release();
  return { table: name, use, kernels: summary(times.kernels), body: summary(times.body) };
}

try {
  ort.env.wasm.numThreads = 1;
  const job = JSON.parse(new TextDecoder().decode(await read("job.json")));
  const kernels = await loadKernels();
  const rows = [];
  for (const each of job.jobs) rows.push(await compare(kernels, each, job));
  await fetch("result.json", { method: "PUT", body: JSON.stringify({ browser: navigator.userAgent, rows }) });
} catch (error) {
  await fetch("error", { method: "PUT", body: String(error?.stack ?? error) });
}
