// The page: shows the likeliest next words while you type, and what was downloaded.

import * as ort from "onnxruntime-web";
import { openBundle } from "./bundle.js";
import { NextWord } from "./next_word.js";

const element = (id) => document.getElementById(id);
const [text, suggestions, state, downloads] = ["text", "suggestions", "state", "downloads"].map(element);

async function read(name) {
  const response = await fetch(new URL(`bundle/${name}`, import.meta.url));
  if (!response.ok) throw new Error(`bundle/${name}: got status ${response.status}, expected a file: serve the whole folder`);
  return new Uint8Array(await response.arrayBuffer());
}

let asked = 0;

async function show(model) {
  const question = ++asked;
  const begin = performance.now();
  const found = await model.suggest(text.value);
  if (question !== asked) return; // a later text was typed meanwhile
  suggestions.replaceChildren(...found.map((suggestion) => button(suggestion, model)));
  state.textContent = `Computed in ${(performance.now() - begin).toFixed(0)} ms. Golden outputs agree.`;
}

function button({ word, probability }, model) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = `${word} ${Math.round(100 * probability)} %`;
  made.addEventListener("click", () => {
    text.value += (text.value && !/\s$/.test(text.value) ? " " : "") + word;
    text.focus();
    show(model);
  });
  return made;
}

function showDownloads() {
  const base = new URL(".", import.meta.url).href;
  const entries = performance.getEntriesByType("resource").filter((entry) => entry.decodedBodySize > 0);
  for (const { name, decodedBodySize } of entries) {
    const row = downloads.insertRow();
    row.insertCell().textContent = name.replace(base, "");
    row.insertCell().textContent = decodedBodySize.toLocaleString("en");
  }
  const all = entries.reduce((sum, entry) => sum + entry.decodedBodySize, 0);
  element("total").textContent = `${(all / 1e6).toFixed(1)} MB`;
}

try {
  ort.env.wasm.numThreads = 1;
  const model = new NextWord(await openBundle(read, ort), ort);
  text.addEventListener("input", () => show(model));
  await show(model);
  showDownloads();
} catch (error) {
  state.textContent = error.message;
  state.className = "error";
}
document.documentElement.dataset.ready = "yes";
