// The page: sorts lines of text by their similarity with a sentence, while you type.

import { cosine, loadEncoder } from "./encoder.js";

const [query, lines, results, state] = ["query", "lines", "results", "state"].map((id) => document.getElementById(id));

function show(encoder) {
  const texts = lines.value.split("\n").filter((line) => line.trim());
  const begin = performance.now();
  const vectors = encoder.encode([query.value, ...texts]);
  const taken = performance.now() - begin;
  const vector = (index) => vectors.subarray(index * encoder.columns, (index + 1) * encoder.columns);
  const found = texts.map((text, index) => ({ text, alike: cosine(vector(0), vector(index + 1)) }));
  found.sort((a, b) => b.alike - a.alike);
  results.replaceChildren(...found.map(row));
  state.textContent = `${texts.length + 1} sentences in ${taken.toFixed(1)} ms`;
}

function row({ text, alike }) {
  const element = document.createElement("tr");
  for (const content of [alike.toFixed(3), text]) element.insertCell().textContent = content;
  return element;
}

try {
  const encoder = await loadEncoder();
  for (const field of [query, lines]) field.addEventListener("input", () => show(encoder));
  show(encoder);
} catch (error) {
  state.textContent = error.message;
}
