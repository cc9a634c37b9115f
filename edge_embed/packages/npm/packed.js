// Packed files: safetensors with a manifest (edge_embed/packed/FORMAT.md). Every size in the header is checked before it
// is used.

import { AGAIN, EdgeEmbedError, check, shown } from "./errors.js";
import { checkCount } from "./specs.js";
import { METHODS } from "./structs.js";

const MOST_HEADER = 100_000_000;
const DTYPES = {
  U8: "uint8", U16: "uint16", U32: "uint32", I8: "int8", I32: "int32", F16: "float16", F32: "float32",
}; // prettier-ignore
const ATTRIBUTES = {
  dpq: ["bits", "num_codes", "num_groups", "share_subspaces", "num_row_scales", "unused_columns"],
  ant: ["num_anchors", "num_nonzeros", "weight_type"],
  tt: ["row_shape", "col_shape", "ranks", "num_embeddings", "has_row_order"],
};
const SPECIAL = ["row_scale", "group_widths"];

// Returns specs of tables by name, sorted. Hashes are compared unless `verify` is false; where the engine has no SHA-256,
// only `verify` = true is an error. Browsers have it on pages with a secure origin.
export async function readPacked(bytes, verify) {
  const { header, data } = readHeader(bytes);
  const metadata = header.__metadata__?.edge_embed;
  check(
    typeof metadata === "string",
    () => "file: got a safetensors file without packed tables, expected one with them: write it with edge_embed.packed.save_tables",
  );
  const manifest = parse(metadata, "manifest");
  check(
    manifest?.format_version === 1,
    () => `format_version: got ${shown(manifest?.format_version)}, expected 1: update edge-embed-web`,
  );
  const { tables } = manifest;
  check(isObject(tables) && Object.keys(tables).length > 0, () => `manifest: got no tables, expected at least one: ${AGAIN}`);
  const hashes = new Map();
  const specs = new Map();
  for (const name of Object.keys(tables).sort()) {
    try {
      specs.set(name, readEntry(name, tables[name], header, data, hashes));
    } catch (error) {
      if (error instanceof EdgeEmbedError) error.message = `table ${shown(name)}: ${error.message}`;
      throw error;
    }
  }
  const hasHashes = Boolean(globalThis.crypto?.subtle);
  check(
    hasHashes || verify !== true,
    () => "verify: got true without crypto.subtle, expected a page of https or localhost: leave verify out elsewhere",
  );
  if (verify !== false && hasHashes) {
    await compareHash(new TextEncoder().encode(canonical(tables)), manifest.sha256, "manifest");
    for (const [name, [content, expected]] of hashes) await compareHash(content, expected, `tensor ${shown(name)}`);
  }
  return specs;
}

function readHeader(bytes) {
  check(bytes.length >= 8, () => `file: got ${bytes.length} bytes, expected a packed .safetensors file: ${AGAIN}`);
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  check(
    length <= Math.min(MOST_HEADER, bytes.length - 8),
    () => `file: got ${bytes.length} bytes, expected ${length + 8} or more of a packed .safetensors file: ${AGAIN}`,
  );
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, 8 + length));
  } catch {
    throw new EdgeEmbedError(`header: got bytes that are no UTF-8, expected a packed .safetensors file: ${AGAIN}`);
  }
  const header = parse(text, "header");
  check(isObject(header), () => `header: got ${shown(header)}, expected an object of a packed .safetensors file: ${AGAIN}`);
  return { header, data: bytes.subarray(8 + length) };
}

function readEntry(table, entry, header, data, hashes) {
  check(isObject(entry), () => `entry: got ${shown(entry)}, expected an object: ${AGAIN}`);
  const { method, attributes, num_embeddings, embedding_dim, padding_idx } = entry;
  check(Object.hasOwn(METHODS, method), () => `method: got ${shown(method)}, expected ${Object.keys(METHODS).join(" or ")}: update edge-embed-web`);
  for (const key of SPECIAL) check(entry[key] === null, () => `${key}: got ${shown(entry[key])}, expected null: update edge-embed-web`);
  check(isObject(attributes) && isObject(entry.sha256), () => `entry: got ${Object.keys(entry)}, expected attributes and sha256: ${AGAIN}`);
  const unknown = Object.keys(attributes).filter((name) => !ATTRIBUTES[method].includes(name));
  check(!unknown.length, () => `attributes: got ${shown(unknown)}, expected ${ATTRIBUTES[method].join(", ")}: update edge-embed-web`);
  checkCount("num_embeddings", num_embeddings, 1);
  checkCount("embedding_dim", embedding_dim, 1);
  check(padding_idx === null || padding_idx >= 0, () => `padding_idx: got ${shown(padding_idx)}, expected a row or null: ${AGAIN}`);
  const tensors = {};
  for (const [name, hash] of Object.entries(entry.sha256)) {
    tensors[name] = readTensor(`${table}/${name}`, header, data);
    hashes.set(`${table}/${name}`, [tensors[name].bytes, hash]);
  }
  const own = { ...attributes, padding_idx: padding_idx ?? -1 };
  return { method, tensors, attributes: own, declared: { rows: num_embeddings, columns: embedding_dim } };
}

function readTensor(name, header, data) {
  const stored = Object.hasOwn(header, name) ? header[name] : undefined;
  check(isObject(stored), () => `tensor ${shown(name)}: got none, expected one as in the manifest: ${AGAIN}`);
  const { dtype, shape, data_offsets: offsets } = stored;
  check(Object.hasOwn(DTYPES, dtype), () => `tensor ${shown(name)}: got type ${shown(dtype)}, expected ${Object.keys(DTYPES).join(" or ")}: ${AGAIN}`);
  for (const list of [shape, offsets]) {
    const isList = Array.isArray(list) && list.length <= 8;
    check(isList, () => `tensor ${shown(name)}: got ${shown(list)}, expected a list: ${AGAIN}`);
    for (const size of list) checkCount(`tensor ${shown(name)}`, size, 0);
  }
  const [begin, end] = offsets;
  check(
    offsets.length === 2 && begin <= end && end <= data.length,
    () => `tensor ${shown(name)}: got bytes ${shown(offsets)}, expected a range of ${data.length}: ${AGAIN}`,
  );
  return { dtype: DTYPES[dtype], shape, bytes: data.subarray(begin, end) };
}

async function compareHash(bytes, expected, what) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const got = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  check(got === expected, () => `${what}: got hash ${got}, expected ${shown(expected)}: ${AGAIN}`);
}

function parse(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new EdgeEmbedError(`${what}: got text that is not JSON (${shown(error.message)}), expected JSON: ${AGAIN}`);
  }
}

// JSON as the manifest is hashed: sorted keys, no spaces, ASCII. An object of JavaScript would reorder numeric keys.
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) {
    const escape = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, escape);
  }
  const parts = Object.keys(value).sort(byCodePoint).map((key) => `${canonical(key)}:${canonical(value[key])}`);
  return `{${parts.join()}}`;
}

function byCodePoint(a, b) {
  const [left, right] = [Array.from(a), Array.from(b)];
  const place = left.findIndex((character, index) => character !== right[index]);
  if (place < 0) return left.length - right.length;
  return place < right.length ? left[place].codePointAt(0) - right[place].codePointAt(0) : 1;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
