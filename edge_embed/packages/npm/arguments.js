// Arguments of the caller as the typed arrays that the kernels read.

import { check, shown } from "./errors.js";

const MODES = ["sum", "mean", "max"]; // ee_bags.mode

export function readIds(ids, name = "ids") {
  if (ids instanceof Int32Array || ids instanceof BigInt64Array) return ids;
  check(Array.isArray(ids), () => `${name}: got ${shown(ids)}, expected Int32Array, BigInt64Array or an array`);
  const wrong = ids.findIndex((id) => typeof id !== "bigint" && !Number.isSafeInteger(id));
  check(wrong < 0, () => `${name}: position ${wrong}: got ${shown(ids[wrong])}, expected an integer`);
  const most = 2n ** 63n;
  const long = ids.findIndex((id) => BigInt(id) >= most || BigInt(id) < -most);
  check(long < 0, () => `${name}: position ${long}: got ${shown(ids[long])}, expected an integer of 64 bits`);
  return BigInt64Array.from(ids, BigInt);
}

export function readOffsets(offsets, count) {
  const read = readIds(offsets, "offsets");
  check(
    read.length > 0 && Number(read[0]) === 0 && Number(read.at(-1)) === count,
    () => `offsets: got ${shown([...read])}, expected the start of each bag and the number of ids: 0, ..., ${count}`,
  );
  return read instanceof BigInt64Array ? read : BigInt64Array.from(read, BigInt);
}

export function readMode(mode) {
  const number = MODES.indexOf(mode);
  check(number >= 0, () => `mode: got ${shown(mode)}, expected one of ${MODES.join(", ")}`);
  return number;
}

export function readFloats(name, values, count = values?.length) {
  check(values instanceof Float32Array, () => `${name}: got ${shown(values)}, expected Float32Array`);
  check(values.length === count, () => `${name}: got ${values.length} numbers, expected ${count}`);
  return values;
}

// An array that a result is written to.
export function readOut(out, count) {
  return out === undefined ? undefined : readFloats("out", out, count);
}
