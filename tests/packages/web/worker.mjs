import * as web from "./edge-embed-web/index.js";
import { runCases } from "./cases.mjs";

const read = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
postMessage(await runCases(web, read));
