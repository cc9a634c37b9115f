// Opens damaged copies of a file and uses what opens: the only error is EdgeEmbedError, and no memory stays in use.

import { readFileSync } from "node:fs";
import { EdgeEmbedError, loadKernels } from "edge-embed-web";

const [path, kind, count, verify] = process.argv.slice(2);
const sound = new Uint8Array(readFileSync(path));
const outcome = { opened: 0, refused: 0, others: [] };
let state = 1;
const random = (limit) => ((state = (Math.imul(state, 1103515245) + 12345) >>> 0), Math.floor((state / 2 ** 32) * limit));
let kernels = await loadKernels();
const open = async (bytes) =>
  kind === "packed" ? kernels.openTables(bytes, { verify: verify === "true" }) : kernels.openModel(bytes).tables;

function use(table) {
  const ids = [0, table.rows - 1, 0];
  for (const call of [
    () => table.lookup(ids),
    () => table.bag(ids, [0, 1, 3], { mode: "max" }),
    () => table.logits(new Float32Array(table.columns)),
    () => table.topk(new Float32Array(table.columns), 1),
  ]) {
    try {
      call();
    } catch (error) {
      if (!(error instanceof EdgeEmbedError)) throw error;
    }
  }
}

async function attempt(bytes, what) {
  try {
    const tables = await open(bytes);
    for (const table of tables.values()) use(table);
    for (const table of tables.values()) table.free();
    outcome.opened += 1;
  } catch (error) {
    if (error instanceof EdgeEmbedError) outcome.refused += 1;
    else outcome.others.push(`${what}: ${error.stack}`);
  }
  if (kernels.bytesUsed !== 0) {
    outcome.others.push(`${what}: ${kernels.bytesUsed} bytes left`);
    kernels = await loadKernels();
  }
}

// The header or the graph is where sizes are: most damage goes there.
const most = kind === "packed" ? 8 + Number(new DataView(sound.buffer).getBigUint64(0, true)) : sound.length;
for (let round = 0; round < Number(count); ++round) {
  const end = random(round % 4 ? most : sound.length);
  await attempt(sound.slice(0, end), `${end} bytes`);
  const at = random(round % 4 ? most : sound.length);
  const flipped = sound.slice();
  flipped[at] = random(2) ? flipped[at] ^ (1 << random(8)) : random(256);
  await attempt(flipped, `byte ${at} = ${flipped[at]}`);
  const digit = 48 + random(10);
  const places = [];
  for (let place = 8; place < most; ++place) if (sound[place] >= 48 && sound[place] < 58) places.push(place);
  const changed = sound.slice();
  changed[places[random(places.length)]] = digit;
  await attempt(changed, `a digit ${digit}`);
}
console.log(JSON.stringify(outcome));
