// Opens a bundle of `edge-embed export --bundle` in a page, under Node.js or in React Native.
//
// Every file is compared with its size and hash, and the outputs of this engine with the golden ones:
//
//   |y - g| <= atol + rtol |g|    for floats; other values are equal

import { damaged, kind, listOf, mapOf, objectOf, optional, readJson, TEXT, WHOLE } from "./json.js";

const FORMAT_VERSION = 1;
const NOT_READ = new Set(["README.md", "NOTICE"]); // for people
const SPECIAL = { NaN: NaN, Infinity: Infinity, "-Infinity": -Infinity };
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};
const MANIFEST = objectOf({
  target: TEXT,
  model: TEXT,
  requires: optional(mapOf(TEXT)),
  metadata: optional(mapOf(TEXT)),
  files: mapOf(objectOf({ bytes: WHOLE, sha256: TEXT })),
});
const VALUE = kind("a number", (value) => ["number", "boolean", "string"].includes(typeof value)); // see numberOf
const TOLERANCE = kind("0 <= number < 1e30", (value) => typeof value === "number" && value >= 0 && value < 1e30);
const TENSOR = objectOf({
  name: TEXT,
  dtype: TEXT,
  shape: listOf(WHOLE),
  values: listOf(VALUE),
  positions: optional(listOf(WHOLE)),
  atol: optional(TOLERANCE),
  rtol: optional(TOLERANCE),
});
const GOLDEN = objectOf({ inputs: listOf(TENSOR), outputs: listOf(TENSOR) });

/**
 * Opens a bundle. With `check: false`, hashes and golden outputs are not compared, as after the first start of an app.
 *
 * @param {(name: string) => Promise<Uint8Array<ArrayBuffer>>} read reads a file
 * @param {any} ort onnxruntime-web, or another module with its interface
 * @param {object} [options]
 * @param {boolean} [options.check]
 * @param {{ name: string, version: string }} [options.engine] what `ort` is, if not onnxruntime-web
 * @param {(bytes: Uint8Array<ArrayBuffer>) => Promise<ArrayBuffer>} [options.sha256] where crypto.subtle is missing
 * @param {(name: string) => string} [options.path] path of a file, if the engine is to open the model by its path
 */
export async function openBundle(read, ort, { check = true, engine = webEngine(ort), sha256 = webSha256, path } = {}) {
  const manifest = readManifest(await read("bundle.json"));
  requireEngine(manifest, engine);
  const files = new Map();
  const isKept = (name) => !path || name.endsWith(".json");
  const names = Object.keys(manifest.files).filter((name) => !NOT_READ.has(name) && (check || isKept(name)));
  await Promise.all(
    names.map(async (name) => {
      const bytes = await read(name);
      if (check) await compareHash(name, bytes, manifest.files[name], sha256);
      if (isKept(name)) files.set(name, bytes);
    }),
  );
  const session = await (path ? ort.InferenceSession.create(path(manifest.model)) : sessionOf(files, manifest.model, ort));
  const bundle = { manifest, session, json: (name, check) => readJson(files.get(name), name, check) };
  if (check) await compareGolden(bundle, ort);
  return bundle;
}

function webEngine(ort) {
  return { name: "onnxruntime-web", version: ort.env.versions.web ?? ort.env.versions.common };
}

async function webSha256(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("hashes need a secure page: serve it over HTTPS or from localhost");
  return crypto.subtle.digest("SHA-256", bytes);
}

function sessionOf(files, model, ort) {
  const externalData = [...files]
    .filter(([name]) => name.endsWith(".data"))
    .map(([name, data]) => ({ path: name, data }));
  return ort.InferenceSession.create(files.get(model), { externalData });
}

// The content of bundle.json, if it is a manifest that this file knows.
export function readManifest(bytes) {
  // First, because another format may lack the other keys.
  const { format_version: version } = readJson(bytes, "bundle.json", objectOf({ format_version: WHOLE }));
  if (version !== FORMAT_VERSION) {
    throw new Error(`bundle.json: got format_version ${version}, expected ${FORMAT_VERSION}: update this app`);
  }
  const manifest = { requires: {}, metadata: {}, ...readJson(bytes, "bundle.json", MANIFEST) };
  if (manifest.target !== "onnx") {
    throw new Error(`bundle.json: got target ${manifest.target}, expected onnx: export it again`);
  }
  requireFiles(manifest);
  return manifest;
}

function requireEngine({ requires }, engine) {
  if (requires.onnxruntime_extensions) {
    throw new Error(`bundle.json: its model contains a tokenizer, which ${engine.name} cannot run: export without one`);
  }
  if (isOlder(engine.version, requires.onnxruntime ?? "0")) {
    throw new Error(`got ${engine.name} ${engine.version}, expected ${requires.onnxruntime} or newer: update it`);
  }
}

// A manifest may come from a server: its names stay in the folder, and nothing without a hash is used.
function requireFiles({ model, files }) {
  for (const name of Object.keys(files)) {
    if (!/^[^./\\:][^/\\:]*$/.test(name)) throw new Error(`bundle.json: got a file named ${name}, expected a plain name`);
  }
  for (const name of [model, "golden.json"]) {
    if (!Object.hasOwn(files, name)) throw new Error(`bundle.json: got no hash of ${name}: copy or download the bundle again`);
  }
}

// Whether a version is older than another, number by number.
export function isOlder(version, needed) {
  const [got, least] = [version, needed].map((text) => text.split(/[-+]/)[0].split(".").map((part) => parseInt(part, 10) || 0));
  for (let i = 0; i < Math.max(got.length, least.length); ++i) {
    const difference = (got[i] ?? 0) - (least[i] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return false;
}

async function compareHash(name, bytes, expected, sha256) {
  if (bytes.length !== expected.bytes) {
    throw new Error(`${name}: got ${bytes.length} bytes, expected ${expected.bytes}: copy or download the bundle again`);
  }
  const got = hex(await sha256(bytes));
  if (got !== expected.sha256) {
    throw new Error(`${name}: got SHA-256 ${got}, expected ${expected.sha256}: copy or download the bundle again`);
  }
}

// An ArrayBuffer in hexadecimal digits.
export function hex(buffer) {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function compareGolden({ session, json }, ort) {
  const { inputs, outputs } = json("golden.json", GOLDEN);
  if (!outputs.some(({ values }) => values.length)) throw new Error("golden.json: got no values, expected outputs to compare");
  const feeds = Object.fromEntries(inputs.map((input) => [input.name, tensorOf(input, ort)]));
  const results = await session.run(feeds);
  for (const golden of outputs) {
    const difference = differenceOf(golden, results[golden.name]);
    if (difference) {
      throw new Error(`output ${golden.name}: ${difference}: this engine computes something else than the trained model`);
    }
  }
}

function tensorOf({ name, dtype, shape, values }, ort) {
  const Type = Object.hasOwn(ARRAYS, dtype) && ARRAYS[dtype];
  if (!Type) throw new Error(`golden.json: input ${name}: got ${dtype}, expected one of ${Object.keys(ARRAYS).join(", ")}`);
  const isBig = Type === BigInt64Array || Type === BigUint64Array;
  const numbers = values.map(numberOf);
  try {
    return new ort.Tensor(dtype, Type.from(numbers, (number) => (isBig ? BigInt(number) : number)), shape);
  } catch (error) {
    throw damaged("golden.json", `input ${name}: ${error.message}`); // values that are not of its type or shape
  }
}

// A golden value; numbers that JSON lacks are texts.
function numberOf(value) {
  if (typeof value !== "string") return Number(value);
  if (!Object.hasOwn(SPECIAL, value)) throw damaged("golden.json", `values: got ${value}, expected a number`);
  return SPECIAL[value];
}

function differenceOf({ dtype, shape, values, positions, atol = 0, rtol = 0 }, tensor) {
  if (!tensor) return "got none";
  if (tensor.type !== dtype || tensor.dims.join() !== shape.join()) {
    return `got ${tensor.type} [${tensor.dims}], expected ${dtype} [${shape}]`;
  }
  const count = positions ? positions.length : tensor.data.length;
  if (values.length !== count) return `got ${values.length} golden values, expected ${count}`;
  for (let i = 0; i < count; ++i) {
    const position = positions ? positions[i] : i;
    if (position >= tensor.data.length) return `got ${tensor.data.length} values, expected one at position ${position}`;
    const expected = numberOf(values[i]);
    const got = Number(tensor.data[position]);
    const isClose = Number.isFinite(expected) && Math.abs(got - expected) <= atol + rtol * Math.abs(expected);
    if (!Object.is(got, expected) && got !== expected && !isClose) {
      return `got ${got} at position ${position}, expected ${expected} (atol ${atol}, rtol ${rtol})`;
    }
  }
  return "";
}
