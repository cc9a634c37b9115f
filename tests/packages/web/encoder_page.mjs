// Ids and vectors of texts, and the milliseconds from the first module to the first vector and of one sentence.

import { loadEncoder } from "./encoder.js";

globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());

try {
  const texts = await (await fetch("texts.json")).json();
  const encoder = await loadEncoder();
  const ids = texts.map((text) => encoder.tokenize(text));
  await fetch("vectors.bin", { method: "PUT", body: encoder.encode(texts) });
  await fetch("result.json", { method: "PUT", body: JSON.stringify({ ids }) });
} catch (error) {
  await fetch("error", { method: "PUT", body: String(error?.stack ?? error) });
}
