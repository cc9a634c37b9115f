// Suggests next words with the model of a bundle: node complete.mjs BUNDLE TEXT...

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-node";
import { openBundle } from "../browser/page/bundle.js";
import { NextWord } from "../browser/page/next_word.js";

const [folder, ...texts] = process.argv.slice(2);
try {
  if (!texts.length) throw new Error("got no texts, expected: node complete.mjs BUNDLE TEXT...");
  const engine = { name: "onnxruntime-node", version: ort.env.versions.node };
  const bundle = await openBundle(read, ort, { engine });
  const model = new NextWord(bundle, ort);
  for (const text of texts) {
    const found = await model.suggest(text);
    const words = found.map(({ word, probability }) => `${word} (${Math.round(100 * probability)}%)`);
    console.log(`  ${text.padEnd(28)} -> ${words.join(", ")}`);
  }
} catch (error) {
  console.error(`Error: ${error.message}`);
  process.exitCode = 1;
}

function read(name) {
  return readFile(join(folder, name)).catch((error) => {
    throw new Error(`${folder}: got no ${name} (${error.code}), expected a folder of edge-embed export --bundle: check the path`);
  });
}
