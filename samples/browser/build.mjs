// Writes the folder of the page, which any static server can serve: node build.mjs BUNDLE OUTPUT

import { cp, mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const engine = join(here, "node_modules", "onnxruntime-web", "dist");
const ENGINE_FILES = ["ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"];

const [bundle, output] = process.argv.slice(2);
try {
  await main();
} catch (error) {
  console.error(`Error: ${error.message}`);
  process.exitCode = 1;
}

async function main() {
  if (!bundle || !output) throw new Error("got no folders, expected: node build.mjs BUNDLE OUTPUT");
  if (!(await exists(join(bundle, "bundle.json")))) {
    throw new Error(`${bundle}: got no bundle.json, expected a folder of edge-embed export --bundle`);
  }
  if (!(await exists(engine))) throw new Error("onnxruntime-web is missing: npm ci");
  if (!relative(bundle, output).startsWith("..")) throw new Error(`${output}: lies in the bundle, expected another place`);
  const isPage = (await exists(join(output, "app.js"))) && (await exists(join(output, "bundle", "bundle.json")));
  if ((await exists(output)) && (await readdir(output)).length && !isPage) {
    throw new Error(`${output}: got a folder of something else, expected a new one or an earlier page`);
  }
  await mkdir(output, { recursive: true });
  for (const folder of ["bundle", "ort"]) await rm(join(output, folder), { recursive: true, force: true });
  await cp(join(here, "page"), output, { recursive: true });
  await cp(bundle, join(output, "bundle"), { recursive: true });
  for (const name of ENGINE_FILES) await cp(join(engine, name), join(output, "ort", name));
  console.log(`wrote ${output}; serve it: python3 -m http.server --directory ${output}`);
}

async function exists(path) {
  return stat(path).then(
    () => true,
    () => false,
  );
}
