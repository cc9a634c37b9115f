// Tensors with names, as edge_embed/targets/tensors.py reads and writes them.

const MAGIC = "EETENS1\0";
const STRING = 8;

// By the number that ONNX has for it: the name of a type, and the array that holds its values.
const TYPES = new Map([
  [1, ["float32", Float32Array]],
  [2, ["uint8", Uint8Array]],
  [3, ["int8", Int8Array]],
  [4, ["uint16", Uint16Array]],
  [5, ["int16", Int16Array]],
  [6, ["int32", Int32Array]],
  [7, ["int64", BigInt64Array]],
  [STRING, ["string", Array]],
  [9, ["bool", Uint8Array]],
  [10, ["float16", Uint16Array]], // its bits, which are taken where there is a Float16Array, too
  [11, ["float64", Float64Array]],
  [12, ["uint32", Uint32Array]],
  [13, ["uint64", BigUint64Array]],
]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  get left() {
    return this.bytes.length - this.at;
  }

  take(size) {
    if (size > this.left) {
      throw new Error(`tensors end at byte ${this.bytes.length}, expected ${size} more after byte ${this.at}`);
    }
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  uint32() {
    this.take(4);
    return this.view.getUint32(this.at - 4, true);
  }

  uint64() {
    this.take(8);
    return Number(this.view.getBigUint64(this.at - 8, true));
  }

  text(size) {
    return new TextDecoder().decode(this.take(size));
  }
}

// A list of { name, type, dims, data }. Throws if the bytes are cut or make no sense.
export function readTensors(bytes) {
  const reader = new Reader(bytes);
  if (reader.text(MAGIC.length) !== MAGIC) throw new Error("this is not a file of tensors");
  const tensors = [];
  for (let left = reader.uint32(); left > 0; --left) tensors.push(readTensor(reader));
  return tensors;
}

function readTensor(reader) {
  const name = reader.text(reader.uint32());
  const [type, Values] = TYPES.get(reader.uint32()) ?? [];
  if (!type) throw new Error(`tensor ${name}: onnxruntime-web does not support its type`);
  const dims = [];
  for (let left = reader.uint32(); left > 0; --left) dims.push(reader.uint64());
  const bytes = reader.take(reader.uint64());
  // slice() copies: values of 8 bytes must begin at a multiple of 8.
  const data = type === "string" ? readTexts(bytes) : new Values(bytes.slice().buffer);
  const count = dims.reduce((product, size) => product * size, 1);
  if (data.length !== count) throw new Error(`tensor ${name}: got ${data.length} values, expected ${count}`);
  return { name, type, dims, data };
}

function readTexts(bytes) {
  const reader = new Reader(bytes);
  const texts = [];
  while (reader.left) texts.push(reader.text(reader.uint64()));
  return texts;
}

// The bytes of a list of { name, type, dims, data }.
export function writeTensors(tensors) {
  const parts = [encode(MAGIC), uint32(tensors.length)];
  for (const { name, type, dims, data } of tensors) {
    const [number] = [...TYPES].find(([, [known]]) => known === type) ?? [];
    if (!number) throw new Error(`output ${name}: got type ${type}, which is not supported`);
    const encoded = encode(name);
    const bytes = type === "string" ? writeTexts(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    parts.push(uint32(encoded.length), encoded, uint32(number), uint32(dims.length), ...dims.map(uint64));
    parts.push(uint64(bytes.length), bytes);
  }
  return joined(parts);
}

function writeTexts(texts) {
  return joined(texts.map(encode).flatMap((text) => [uint64(text.length), text]));
}

function joined(parts) {
  const bytes = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function encode(text) {
  return new TextEncoder().encode(text);
}

function uint32(value) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function uint64(value) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}
