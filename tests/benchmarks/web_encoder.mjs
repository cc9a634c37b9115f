// Milliseconds to the first vector. "After download" begins when all bytes are in memory, which the page then uses.

globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());

const FILES = ["tokenizer.json", "tables.safetensors", "edge-embed-web/kernels-simd.wasm"];
const SENTENCE = "how do i move money to another account";

// Answers requests for these files from memory, so that only the work of the page is timed.
async function keepInMemory() {
  const original = fetch;
  const kept = new Map();
  for (const name of FILES) kept.set(new URL(name, location).href, await (await original(name)).arrayBuffer());
  globalThis.fetch = async (url, options) =>
    kept.has(String(url)) ? new Response(kept.get(String(url))) : original(url, options);
}

try {
  const isInMemory = "memory" in document.documentElement.dataset;
  if (isInMemory) await keepInMemory();
  const begin = isInMemory ? performance.now() : 0; // of the navigation
  const { loadEncoder } = await import("./encoder.js");
  const encoder = await loadEncoder();
  encoder.encode([SENTENCE]);
  const first = performance.now() - begin;
  const entries = performance.getEntriesByType("resource").filter(({ name }) => !/alive|web_encoder/.test(name));
  const bytes = entries.reduce((total, { encodedBodySize: size }) => total + size, document.documentElement.outerHTML.length);
  const texts = Array.from({ length: 1000 }, (_, i) => `${SENTENCE} number ${i}`);
  const start = performance.now();
  encoder.encode(texts);
  const result = { browser: navigator.userAgent, bytes, first, thousand: performance.now() - start };
  await fetch("result.json", { method: "PUT", body: JSON.stringify(result) });
} catch (error) {
  await fetch("error", { method: "PUT", body: String(error?.stack ?? error) });
}
