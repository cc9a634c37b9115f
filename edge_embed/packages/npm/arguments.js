// Arguments of the caller as the typed arrays that the kernels read.

import { EdgeEmbedError, check, shown } from "./errors.js";

const MODES = ["sum", "mean", "max"]; // ee_bags.mode
const IDS = "expected Int32Array, BigInt64Array or an array of integers";

export function readIds(ids, name = "ids") {
  if (ids instanceof Int32Array || ids instanceof BigInt64Array) return attached(name, ids);
  check(Array.isArray(ids), () => `${name}: got ${shown(ids)}, ${IDS}: convert it with Int32Array.from`);
  const wrong = ids.findIndex((id) => typeof id !== "bigint" && !Number.isSafeInteger(id));
  check(wrong < 0, () => `${name}: position ${wrong}: got ${shown(ids[wrong])}, expected an integer: round it, or look for the wrong one`);
  const most = 2n ** 63n;
  const long = ids.findIndex((id) => BigInt(id) >= most || BigInt(id) < -most);
  check(long < 0, () => `${name}: position ${long}: got ${shown(ids[long])}, expected an integer of 64 bits: pass a row of the table`);
  return BigInt64Array.from(ids, BigInt);
}

export function readOffsets(offsets, count) {
  const read = readIds(offsets, "offsets");
  check(
    read.length > 0 && Number(read[0]) === 0 && Number(read.at(-1)) === count,
    () => `offsets: got ${shown([...read])}, expected the start of each bag and the number of ids: pass 0, ..., ${count}`,
  );
  return read instanceof BigInt64Array ? read : BigInt64Array.from(read, BigInt);
}

export function readMode(mode) {
  const number = MODES.indexOf(mode);
  check(number >= 0, () => `mode: got ${shown(mode)}, expected one of ${MODES.join(", ")}: leave it out for sum`);
  return number;
}

export function readFloats(name, values, count = values?.length) {
  check(values instanceof Float32Array, () => `${name}: got ${shown(values)}, expected Float32Array: use Float32Array.from`);
  attached(name, values);
  check(values.length === count, () => `${name}: got ${values.length} numbers, expected ${count}: pass as many`);
  return values;
}

// An array that a result is written to.
export function readOut(out, count) {
  return out === undefined ? undefined : readFloats("out", out, count);
}

// The options of a call: an object, or nothing.
export function readOptions(options) {
  check(
    options === undefined || (typeof options === "object" && options !== null && !Array.isArray(options)),
    () => `options: got ${shown(options)}, expected an object such as { out }: leave it out for none`,
  );
  return options ?? {};
}

// The bytes of a file. Memory that threads share is copied, because decoders and hashes of browsers refuse it.
export function readBytes(bytes, name = "bytes") {
  const isView = ArrayBuffer.isView(bytes);
  check(
    isView || bytes instanceof ArrayBuffer,
    () => `${name}: got ${shown(bytes)}, expected an ArrayBuffer or a typed array: pass the content of the file`,
  );
  attached(name, bytes);
  if (!isView) return new Uint8Array(bytes);
  const view = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return bytes.buffer instanceof ArrayBuffer ? view : view.slice();
}

// Returns an array whose memory was not moved to another thread.
function attached(name, array) {
  const buffer = ArrayBuffer.isView(array) ? array.buffer : array;
  if (buffer.byteLength > 0) return array;
  try {
    new Uint8Array(buffer);
  } catch {
    const expected = "expected one with its content: pass a copy to the other thread, or call this first";
    throw new EdgeEmbedError(`${name}: got an array whose memory was transferred, ${expected}`);
  }
  return array;
}
