// Copies a bundle into the assets of the app: node copy_bundle.mjs BUNDLE

import { cp, mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readManifest } from "../browser/page/bundle.js";

const assets = join(dirname(fileURLToPath(import.meta.url)), "assets", "bundle");

const [bundle] = process.argv.slice(2);
try {
  if (!bundle) throw new Error("got no folder, expected: node copy_bundle.mjs BUNDLE");
  if (resolve(bundle) === assets) throw new Error(`${bundle}: is the folder of the copy, expected another one`);
  const names = await filesOf(bundle);
  const data = names.find((name) => name.endsWith(".data"));
  if (data) throw new Error(`${bundle}: got ${data}, expected all weights in the model: export with --external-data never`);
  const part = `${assets}.part`; // an earlier copy stays until this one is whole
  await rm(part, { recursive: true, force: true });
  await mkdir(part, { recursive: true });
  for (const name of names) await cp(join(bundle, name), join(part, `${name}.bin`));
  await rm(assets, { recursive: true, force: true });
  await rename(part, assets);
  console.log(`copied ${names.length} files to ${assets}`);
} catch (error) {
  console.error(`Error: ${error.message}`);
  process.exitCode = 1;
}

// The manifest and the files that it names.
async function filesOf(folder) {
  const manifest = await readFile(join(folder, "bundle.json")).catch(() => {
    throw new Error(`${folder}: got no bundle.json, expected a folder of edge-embed export --bundle`);
  });
  const { files } = readManifest(manifest);
  for (const [name, { bytes }] of Object.entries(files)) {
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found?.size !== bytes) throw new Error(`${join(folder, name)}: got ${found?.size ?? "no"} bytes, expected ${bytes}`);
  }
  return [...Object.keys(files), "bundle.json"];
}
