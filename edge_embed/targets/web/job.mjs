// A model on all cases of a folder, the same under Node.js and in a browser: made once, called, timed.

import { findGpu } from "./gpu.mjs";
import { readTensors, writeTensors } from "./tensors.mjs";

// What the engine allocates, which it does not tell itself.
const memories = [];
WebAssembly.Memory = class extends WebAssembly.Memory {
  constructor(description) {
    super(description);
    memories.push(this);
  }
};

// Args:
//   loading: a promise of onnxruntime-web.
//   folder: read(name) and write(name, bytes or text), which may be asynchronous. In the end there is `result.json`
//     or `error`.
//   platform: what runs it, by name: { node: "v20.1.0" }.
export async function runJob(loading, folder, platform) {
  try {
    await run(await loading, folder, platform);
  } catch (error) {
    await folder.write("error", String(error?.message ?? error).replaceAll(/\s+/g, " "));
  }
}

async function run(ort, folder, platform) {
  const job = JSON.parse(new TextDecoder().decode(await folder.read("job.json")));
  ort.env.logLevel = "fatal"; // errors come back as exceptions; they would be printed too
  if (job.threads) ort.env.wasm.numThreads = job.threads;
  const externalData = [];
  for (const path of job.data) externalData.push({ path, data: await folder.read(`subject/${path}`) });
  const model = await folder.read(`subject/${job.model}`);
  const cases = [];
  for (let number = 0; number < job.cases; ++number) cases.push(feeds(ort, await folder.read(`${number}.in`)));

  const gpu = job.provider === "webgpu" ? await findGpu() : undefined;
  const options = { executionProviders: [job.provider], externalData, logSeverityLevel: 4 };
  const create = (enableProfiling) => ort.InferenceSession.create(model, { ...options, enableProfiling });
  const [creation, session] = await timed(() => create(Boolean(gpu?.emulated))); // the times of an emulator say nothing
  const [first, outputs] = await timed(() => session.run(cases[0]));
  const calls = [];
  for (let left = job.iterations; left > 0; --left) calls.push((await timed(() => session.run(cases[0])))[0]);
  await folder.write("0.out", written(outputs));
  for (let number = 1; number < cases.length; ++number) {
    await folder.write(`${number}.out`, written(await session.run(cases[number])));
  }
  const found = gpu ? await gpu.watched(session, create, cases) : {};
  const heap = memories.reduce((total, memory) => total + memory.buffer.byteLength, 0);
  const times = { create: creation, first, calls };
  const versions = { "onnxruntime-web": ort.env.versions.web, ...platform };
  await folder.write("result.json", JSON.stringify({ ...versions, ...found, ...times, wasm_heap_bytes: heap }));
}

function feeds(ort, bytes) {
  const named = readTensors(bytes).map(({ name, type, data, dims }) => [name, new ort.Tensor(type, data, dims)]);
  return Object.fromEntries(named);
}

function written(outputs) {
  return writeTensors(Object.entries(outputs).map(([name, { type, dims, data }]) => ({ name, type, dims, data })));
}

async function timed(step) {
  const start = performance.now();
  const result = await step();
  return [{ wall_ns: Math.round((performance.now() - start) * 1e6) }, result];
}
