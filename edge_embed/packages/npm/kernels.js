// The kernels: one WebAssembly module with SIMD and one without, which have the same functions.

import { readBytes, readOptions } from "./arguments.js";
import { EdgeEmbedError, check, shown } from "./errors.js";
import { Memory } from "./memory.js";
import { openModel } from "./model.js";
import { readPacked } from "./packed.js";
import { Table } from "./table.js";

// A module whose only function returns a vector: engines without SIMD refuse it.
const SIMD = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
);
const URLS = {
  // Bundlers find files by this form.
  simd: () => new URL("./kernels-simd.wasm", import.meta.url),
  scalar: () => new URL("./kernels-scalar.wasm", import.meta.url),
};

export async function loadKernels(options) {
  const { simd = WebAssembly.validate(SIMD), wasm } = readOptions(options);
  const module = wasm instanceof WebAssembly.Module ? wasm : await compile(wasm ?? URLS[simd ? "simd" : "scalar"]());
  const { exports } = await WebAssembly.instantiate(module, {});
  check(
    exports.ee_gather && exports.memory,
    () => "wasm: got another module, expected kernels-simd.wasm or kernels-scalar.wasm: pass one of this package",
  );
  return new Kernels(exports, wasm === undefined ? Boolean(simd) : undefined);
}

async function compile(source) {
  const isBytes = source instanceof ArrayBuffer || ArrayBuffer.isView(source);
  try {
    return await WebAssembly.compile(isBytes ? source : await read(new URL(source, import.meta.url)));
  } catch (error) {
    throw new EdgeEmbedError(
      `wasm: got ${isBytes ? shown(source) : shown(String(source))}, which cannot be compiled (${error.message}): ` +
        "serve the .wasm files of this package, and pass the address of one as `wasm`",
      { cause: error },
    );
  }
}

async function read(url) {
  if (url.protocol === "file:" && globalThis.process?.versions?.node) {
    const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

class Kernels {
  #exports;
  #memory;

  constructor(exports, simd) {
    this.#exports = exports;
    this.#memory = new Memory(exports.memory, exports.__heap_base.value);
    this.simd = simd;
  }

  get version() {
    return this.#text(this.#exports.ee_version());
  }

  get bytesUsed() {
    return this.#memory.used;
  }

  // The tables of a packed file (edge_embed/packed/FORMAT.md), by name.
  async openTables(bytes, options) {
    const { verify } = readOptions(options);
    return this.#made(await readPacked(readBytes(bytes), verify));
  }

  // The tables of an exported ONNX file, and the rest of the file for onnxruntime-web.
  openModel(bytes, options) {
    const { externalData = [] } = readOptions(options);
    return openModel(readBytes(bytes), readExternal(externalData), (specs) => this.#made(specs));
  }

  #made(specs) {
    const tables = new Map();
    try {
      for (const [name, spec] of specs) tables.set(name, new Table(this.#calls(), spec, name));
    } catch (error) {
      for (const table of tables.values()) table.free();
      throw error;
    }
    return tables;
  }

  #calls() {
    return { exports: this.#exports, memory: this.#memory, sentence: (status) => this.#sentence(status) };
  }

  #sentence(status) {
    return this.#text(this.#exports.ee_status_message(status));
  }

  #text(address) {
    const { buffer } = this.#exports.memory;
    const bytes = new Uint8Array(buffer, address, Math.min(256, buffer.byteLength - address));
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }
}

// Bytes of files by path.
function readExternal(given) {
  const isList = Array.isArray(given) && given.every((each) => typeof each?.path === "string");
  check(isList, () => `externalData: got ${shown(given)}, expected a list: pass [{ path, data }] as for onnxruntime-web`);
  return new Map(given.map(({ path, data }) => [path, readBytes(data, `externalData ${shown(path)}`)]));
}
