// Structs of the C interface (runtime_ops/c_api/edge_embed.h) in the memory of WebAssembly: pointers and sizes take 4
// bytes, and each field is aligned to its size.

export const TYPES = ["float32", "float16", "int8", "uint8", "uint16", "uint32", "int32", "int64"]; // ee_type
export const ITEM_BYTES = { float32: 4, float16: 2, int8: 1, uint8: 1, uint16: 2, uint32: 4, int32: 4, int64: 8 };
export const METHODS = { dpq: 1, ant: 2, tt: 3 }; // ee_method
export const USES = { lookup: 0, bag: 1, logits: 2, topk: 3 }; // ee_use
export const BAD_ID = 10; // EE_ID_OUT_OF_RANGE
export const BAD_OFFSETS = 25;
export const MOST_CORES = 6;
const TABLE_VERSION = 1;

const WRITERS = {
  u32: [4, (view, at, value) => view.setUint32(at, value, true)],
  i64: [8, (view, at, value) => view.setBigInt64(at, BigInt(value), true)],
  f32: [4, (view, at, value) => view.setFloat32(at, value, true)],
};

const CORE = "u32 data,u32 bytes,i64 rows,i64 rank_in,i64 columns,i64 rank_out";
const LAYOUTS = {
  dpq:
    "u32 codes,u32 codes_bytes,u32 values,u32 values_bytes,u32 value_scales,u32 value_scales_bytes,i64 num_embeddings," +
    "i64 num_codes,i64 num_groups,i64 group_width,i64 padding_idx,u32 bits,u32 shared,u32 value_type,u32 blocks," +
    "u32 blocks_bytes",
  ant:
    "u32 row_offsets,u32 row_offsets_bytes,u32 anchor_ids,u32 anchor_ids_bytes,u32 weights,u32 weights_bytes," +
    "u32 anchors,u32 anchors_bytes,i64 num_embeddings,i64 num_weights,i64 num_anchors,i64 embedding_dim," +
    "i64 padding_idx,f32 weight_scale,u32 anchor_id_type,u32 weight_type,u32 anchor_type",
  tt:
    Array.from({ length: MOST_CORES }, (_, k) => CORE.replaceAll(/ (\w+)/g, ` $1_${k}`)).join() +
    ",i64 num_cores,i64 num_embeddings,i64 padding_idx,u32 core_type",
  ids: "u32 data,i64 count,u32 type",
  bags: "u32 offsets,i64 num_bags,u32 sample_weights,u32 mode",
  best: "i64 k,u32 bias,u32 values,u32 values_bytes,u32 ids,u32 ids_bytes",
};

// Bytes that hold any of these structs.
export const STRUCT_BYTES = 512;
const UNION = 8; // of ee_table, after version and method

// Writes the fields of a struct; those that are not given are 0.
export function writeStruct(view, name, fields, at = 0) {
  for (const part of LAYOUTS[name].split(",")) {
    const [type, field] = part.split(" ");
    const [size, write] = WRITERS[type];
    at = Math.ceil(at / size) * size;
    write(view, at, fields[field] ?? 0);
    at += size;
  }
}

export function writeTable(view, method, fields) {
  view.setInt32(0, TABLE_VERSION, true);
  view.setInt32(4, METHODS[method], true);
  writeStruct(view, method, fields, UNION);
}
