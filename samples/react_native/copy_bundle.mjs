// Copies a bundle into the assets of the app: node copy_bundle.mjs BUNDLE

import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const assets = join(dirname(fileURLToPath(import.meta.url)), "assets", "bundle");

const [bundle] = process.argv.slice(2);
try {
  if (!bundle) throw new Error("got no folder, expected: node copy_bundle.mjs BUNDLE");
  const names = await readdir(bundle).catch(() => []);
  if (!names.includes("bundle.json")) {
    throw new Error(`${bundle}: got no bundle.json, expected a folder of edge-embed export --bundle`);
  }
  const data = names.find((name) => name.endsWith(".data"));
  if (data) throw new Error(`${bundle}: got ${data}, expected all weights in the model: export with --external-data never`);
  await rm(assets, { recursive: true, force: true });
  await mkdir(assets, { recursive: true });
  for (const name of names) await cp(join(bundle, name), join(assets, `${name}.bin`));
  console.log(`copied ${names.length} files to ${assets}`);
} catch (error) {
  console.error(`Error: ${error.message}`);
  process.exitCode = 1;
}
