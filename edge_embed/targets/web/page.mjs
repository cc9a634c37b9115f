// The job of the server that this page comes from; what comes of it is put back there.

import { runJob } from "./job.mjs";

const folder = {
  async read(name) {
    const response = await fetch(name.split("/").map(encodeURIComponent).join("/"));
    if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
    return new Uint8Array(await response.arrayBuffer());
  },
  async write(name, content) {
    const response = await fetch(name, { method: "PUT", body: content });
    if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  },
};

// The answer never ends. It breaks when this tab crashes, and so tells the server; it is held, or it would be collected.
globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());
await runJob(import("./ort.mjs"), folder, { browser: navigator.userAgent });
