// Checks of a table's tensors: types, shapes and bytes must fit each other before anything is copied into the memory of
// the kernels. A spec is { method, tensors: { name: { dtype, shape, bytes } }, attributes }.

import { AGAIN, EdgeEmbedError, check, shown } from "./errors.js";
import { ITEM_BYTES, MOST_CORES } from "./structs.js";

const FLOATS = ["float32", "float16"];
const VALUES = [...FLOATS, "int8"];
const ANCHOR_IDS = ["uint8", "uint16", "uint32"];

// Returns the sizes of a table and the fields of its struct that are no addresses.
export function checkedSizes({ method, tensors, attributes }) {
  for (const [name, tensor] of Object.entries(tensors)) checkBytes(name, tensor);
  const sizes = CHECKS[method](tensors, attributes);
  for (const [name, value] of Object.entries(sizes)) {
    if (["rows", "columns"].includes(name)) checkCount(name, value, 1);
  }
  const padding = attributes.padding_idx ?? -1;
  checkCount("padding_idx", padding, -1, sizes.rows - 1);
  return { ...sizes, fields: { ...sizes.fields, num_embeddings: sizes.rows, padding_idx: padding } };
}

export function checkCount(name, value, least, most = Number.MAX_SAFE_INTEGER) {
  check(
    Number.isSafeInteger(value) && value >= least && value <= most,
    () => `${name}: got ${shown(value)}, expected an integer from ${least} to ${most}: ${AGAIN}`,
  );
}

function checkBytes(name, { dtype, shape, bytes }) {
  const expected = shape.reduce((product, size) => product * size, ITEM_BYTES[dtype]);
  check(
    bytes.length === expected,
    () => `tensor ${name}: got ${bytes.length} bytes, expected ${expected} for ${dtype} ${shown(shape)}: ${AGAIN}`,
  );
}

// Throws unless a tensor has one of the types, and a shape; sizes of -1 may be any.
function expect(tensors, name, types, shape) {
  const tensor = tensors[name];
  const fits =
    tensor &&
    types.includes(tensor.dtype) &&
    tensor.shape.length === shape.length &&
    shape.every((size, axis) => size === -1 || size === tensor.shape[axis]);
  if (!fits) {
    const got = tensor ? `${tensor.dtype} ${shown(tensor.shape)}` : "none";
    const sizes = shape.map((size) => (size === -1 ? "any" : size));
    throw new EdgeEmbedError(
      `tensor ${name}: got ${got}, expected ${types.join(" or ")} [${sizes.join(", ")}]: ${AGAIN}`,
    );
  }
  return tensor;
}

function checkNames(tensors, names) {
  const unknown = Object.keys(tensors).filter((name) => !names.includes(name));
  check(!unknown.length, () => `tensors: got ${shown(unknown)}, expected only ${names.join(", ")}: update edge-embed-web`);
}

const CHECKS = {
  dpq(tensors, { num_codes: codes, num_groups: groups, bits, unused_columns: unused = 0 }) {
    checkCount("num_codes", codes, 2, 65536);
    checkCount("num_groups", groups, 1);
    checkCount("bits", bits, 1, 16);
    const stored = expect(tensors, "codes", ["uint8"], [-1, Math.ceil((groups * bits) / 8)]);
    const rows = stored.shape[0];
    const values = expect(tensors, "values", VALUES, [-1, codes, -1]);
    const [tables, , width] = values.shape;
    check(tables === 1 || tables === groups, () => `tensor values: got ${tables} codebooks, expected 1 or ${groups}: ${AGAIN}`);
    const names = ["codes", "values"];
    if (values.dtype === "int8") {
      expect(tensors, "value_scales", ["float32"], [tables]);
      names.push("value_scales");
    }
    if (tensors.row_scales || tensors.row_scale_codes) {
      expect(tensors, "row_scale_codes", ["uint8"], [rows]);
      const scales = expect(tensors, "row_scales", ["float32"], [-1]).shape[0];
      checkCount("row_scales", scales, 1, 256);
      const most = tensors.row_scale_codes.bytes.reduce((largest, code) => Math.max(largest, code), 0);
      checkCount("row_scale_codes", most, 0, scales - 1);
      names.push("row_scale_codes", "row_scales");
    }
    checkNames(tensors, names);
    checkCount("unused_columns", unused, 0, width - 1);
    const fields = { num_codes: codes, num_groups: groups, group_width: width, bits, shared: Number(tables !== groups) };
    return { rows, columns: groups * width - unused, fields };
  },

  ant(tensors) {
    const rows = expect(tensors, "row_offsets", ["int32"], [-1]).shape[0] - 1;
    const weights = expect(tensors, "weights", VALUES, [-1]).shape[0];
    expect(tensors, "anchor_ids", ANCHOR_IDS, [weights]);
    const scale = expect(tensors, "weight_scale", ["float32"], [1]).bytes;
    const [anchors, columns] = expect(tensors, "anchors", FLOATS, [-1, -1]).shape;
    checkNames(tensors, ["row_offsets", "weights", "anchor_ids", "weight_scale", "anchors"]);
    const weight_scale = new DataView(scale.buffer, scale.byteOffset, 4).getFloat32(0, true);
    const fields = { num_weights: weights, num_anchors: anchors, embedding_dim: columns, weight_scale };
    return { rows, columns, fields };
  },

  tt(tensors, { num_embeddings: rows }) {
    const count = Object.keys(tensors).filter((name) => name.startsWith("core_")).length;
    checkCount("number of cores", count, 2, MOST_CORES);
    checkCount("num_embeddings", rows, 1);
    const names = Array.from({ length: count }, (_, k) => `core_${k}`);
    const type = tensors.core_0?.dtype;
    const cores = names.map((name) => expect(tensors, name, FLOATS.includes(type) ? [type] : FLOATS, [-1, -1, -1, -1]));
    if (tensors.row_order) {
      const { bytes } = expect(tensors, "row_order", ["int32"], [rows]);
      checkPermutation(bytes, rows);
      names.push("row_order");
    }
    checkNames(tensors, names);
    const columns = cores.reduce((product, { shape }) => product * shape[2], 1);
    return { rows, columns, fields: { num_cores: count } };
  },
};

function checkPermutation(bytes, rows) {
  const order = new Int32Array(bytes.slice().buffer);
  const reached = new Uint8Array(rows);
  for (const row of order) {
    check(
      row >= 0 && row < rows && !reached[row],
      () => `tensor row_order: got row ${row}, expected each of 0 to ${rows - 1} once: ${AGAIN}`,
    );
    reached[row] = 1;
  }
}
