// Runs the calls in a page and in a worker, both with the package as a page serves it.

import * as web from "./edge-embed-web/index.js";
import { runCases } from "./cases.mjs";

globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());
const read = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());

function runInWorker() {
  return new Promise((resolve, reject) => {
    const worker = new Worker("worker.mjs", { type: "module" });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`worker: ${message}`));
  });
}

try {
  const results = { page: await runCases(web, read), worker: await runInWorker() };
  await fetch("result.json", { method: "PUT", body: JSON.stringify(results) });
} catch (error) {
  await fetch("error", { method: "PUT", body: String(error?.stack ?? error) });
}
