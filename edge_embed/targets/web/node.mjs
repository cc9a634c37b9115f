// node node.mjs RUNTIME FOLDER: runs the job in a folder; RUNTIME is the file of onnxruntime-web to import.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { runJob } from "./job.mjs";

const [runtime, path] = process.argv.slice(2);
const folder = {
  read: (name) => new Uint8Array(readFileSync(join(path, name))),
  write(name, content) {
    writeFileSync(join(path, `${name}.part`), content);
    renameSync(join(path, `${name}.part`), join(path, name)); // whoever waits for it sees all of it
  },
};
await runJob(import(pathToFileURL(runtime)), folder, { node: process.version });
process.exit(); // threads of the engine would keep it alive
