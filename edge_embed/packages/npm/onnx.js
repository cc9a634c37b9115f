// The parts of an ONNX model that matter here. The numbers of fields are those of onnx.proto.

import { AGAIN, EdgeEmbedError, check, shown } from "./errors.js";
import { bytesOf, fields, integerOf, integersOf, join, textOf, writeBytes, writeInteger, writeText } from "./protobuf.js";

export const FLOAT32 = 1;
export const INT64 = 7;
export const FLOAT16 = 10;
const DTYPES = new Map([
  [1, "float32"], [2, "uint8"], [3, "int8"], [4, "uint16"], [6, "int32"], [7, "int64"], [10, "float16"], [12, "uint32"],
]); // prettier-ignore
const TYPE_NAMES = new Map([...DTYPES, [5, "int16"], [8, "string"], [9, "bool"], [11, "float64"], [13, "uint64"]]);
const EXTERNAL = 1; // TensorProto.data_location
const MOST_DEPTH = 16; // of graphs in nodes

// { others, graph, functions }: fields of the model that are kept as they are, its graph, and its functions.
export function readModel(bytes) {
  const model = { others: [], graph: undefined, functions: [] };
  for (const { number, value, raw } of fields(bytes)) {
    if (number === 7) model.graph = readGraph(bytesOf(value));
    else if (number === 25) model.functions.push(readFunction(bytesOf(value), raw));
    else model.others.push(raw);
  }
  check(model.graph, () => "file: got no graph, expected an ONNX model that edge-embed exported");
  return model;
}

function readGraph(bytes) {
  const graph = { others: [], nodes: [], infos: [], initializers: new Map(), inputs: new Map() };
  [graph.outputs, graph.outputInfos, graph.inputInfos] = [new Map(), new Map(), new Map()];
  for (const { number, value, raw } of fields(bytes)) {
    if (number === 1) graph.nodes.push(readNode(bytesOf(value), raw));
    else if (number === 5) graph.initializers.set(nameOf(value, 8), { bytes: bytesOf(value), raw });
    else if (number === 11) {
      graph.inputs.set(nameOf(value, 1), raw);
      graph.inputInfos.set(nameOf(value, 1), { bytes: bytesOf(value) });
    }
    else if (number === 12) {
      graph.outputs.set(nameOf(value, 1), raw);
      graph.outputInfos.set(nameOf(value, 1), { bytes: bytesOf(value) });
    }
    else if (number === 13) graph.infos.push({ name: nameOf(value, 1), bytes: bytesOf(value), raw });
    else graph.others.push(raw);
  }
  return graph;
}

function readFunction(bytes, raw) {
  const read = { name: "", domain: "", nodes: [], raw };
  for (const { number, value } of fields(bytes)) {
    if (number === 1) read.name = textOf(value);
    else if (number === 10) read.domain = textOf(value);
    else if (number === 7) read.nodes.push(readNode(bytesOf(value)));
  }
  return read;
}

// `inner` has the nodes of graphs in its attributes, at any depth.
function readNode(bytes, raw, depth = 0) {
  check(depth < MOST_DEPTH, () => `file: got graphs within graphs ${MOST_DEPTH} times, expected fewer: ${AGAIN}`);
  const node = { inputs: [], outputs: [], name: "", type: "", domain: "", attributes: {}, inner: [], raw };
  for (const { number, value } of fields(bytes)) {
    if (number === 1) node.inputs.push(textOf(value));
    else if (number === 2) node.outputs.push(textOf(value));
    else if (number === 3) node.name = textOf(value);
    else if (number === 4) node.type = textOf(value);
    else if (number === 7) node.domain = textOf(value);
    else if (number === 5) readAttribute(bytesOf(value), node, depth);
  }
  return node;
}

function readAttribute(bytes, node, depth) {
  let name = "";
  for (const { number, value } of fields(bytes)) {
    if (number === 1) name = textOf(value);
    else if (number === 3) node.attributes[name] = integerOf(value);
    else if (number === 6 || number === 11) {
      for (const part of fields(bytesOf(value))) {
        if (part.number !== 1) continue;
        const inner = readNode(bytesOf(part.value), undefined, depth + 1);
        node.inner.push(inner, ...inner.inner);
      }
    }
  }
}

function nameOf(message, field) {
  for (const { number, value } of fields(bytesOf(message))) if (number === field) return textOf(value);
  return "";
}

// { dtype, shape, bytes } of an initializer, from the file or from `externalData`, a Map of bytes by path.
export function readTensor(name, { bytes }, externalData) {
  const tensor = { dtype: undefined, shape: [], bytes: undefined };
  const external = {};
  let location = 0;
  let type = 0;
  for (const { number, value } of fields(bytes)) {
    if (number === 1) tensor.shape.push(...integersOf(value));
    else if (number === 2) type = integerOf(value);
    else if (number === 9) tensor.bytes = bytesOf(value);
    else if (number === 13) Object.assign(external, readEntry(bytesOf(value)));
    else if (number === 14) location = integerOf(value);
  }
  tensor.dtype = DTYPES.get(type);
  check(tensor.dtype, () => `tensor ${name}: got type ${type} of ONNX, expected one of a table: export the model again`);
  const isSound = tensor.shape.every((size) => Number.isSafeInteger(size) && size >= 0) && tensor.shape.length <= 8;
  check(isSound, () => `tensor ${name}: got shape ${shown(tensor.shape)}, expected at most 8 sizes: ${AGAIN}`);
  if (location === EXTERNAL) tensor.bytes = externalBytes(name, external, externalData);
  if (!tensor.bytes && tensor.shape.includes(0)) tensor.bytes = new Uint8Array(0);
  check(tensor.bytes, () => `tensor ${name}: got no raw data, expected the bytes of its numbers: export the model again`);
  return tensor;
}

function readEntry(bytes) {
  let [key, text] = ["", ""];
  for (const { number, value } of fields(bytes)) {
    if (number === 1) key = textOf(value);
    else if (number === 2) text = textOf(value);
  }
  return { [key]: text };
}

function externalBytes(name, { location, offset = "0", length }, externalData) {
  const data = externalData.get(location);
  check(
    data,
    () =>
      `tensor ${name}: got no external data, expected ${shown(location)}: ` +
      `pass externalData: [{ path: ${shown(location)}, data }]`,
  );
  const begin = Number(offset);
  const size = length === undefined ? data.length - begin : Number(length);
  if (!(Number.isSafeInteger(begin) && Number.isSafeInteger(size) && begin >= 0 && size >= 0 && begin + size <= data.length)) {
    const place = `bytes ${shown(offset)} to ${shown(begin + size)} of ${shown(location)}`;
    throw new EdgeEmbedError(`tensor ${name}: got ${place}, expected at most ${data.length}: ${AGAIN}`);
  }
  return data.subarray(begin, begin + size);
}

// The type of the elements of a ValueInfoProto; 0 if it has none.
export function typeOfValue(info) {
  return Number(inside(tensorOf(info), 1) ?? 0);
}

// { type, dims } of a ValueInfoProto: the name of the type for a tensor of onnxruntime-web, and sizes, of which those
// that may vary are undefined; both are undefined where the file has none.
export function tensorOfValue(info) {
  const shape = inside(tensorOf(info), 2);
  if (shape === undefined) return { type: TYPE_NAMES.get(typeOfValue(info)), dims: undefined };
  const sizes = [...fields(bytesOf(shape))].map(({ value }) => inside(bytesOf(value), 1));
  const dims = sizes.map((size) => (size === undefined ? undefined : Number(size)));
  return { type: TYPE_NAMES.get(typeOfValue(info)), dims };
}

function inside(message, field) {
  return [...fields(message)].find(({ number }) => number === field)?.value;
}

function tensorOf(info) {
  return [2, 1].reduce((message, field) => bytesOf(inside(message, field) ?? new Uint8Array(0)), info);
}

// A graph input (field 11) or output (field 12) of a type, without a shape.
export function writeValue(field, name, type) {
  const tensorType = writeBytes(1, writeInteger(1, type));
  return writeBytes(field, join([writeText(1, name), writeBytes(2, tensorType)]));
}

export function writeCast(input, output, type) {
  const attribute = join([writeText(1, "to"), writeInteger(3, type), writeInteger(20, 2)]);
  const names = [writeText(1, input), writeText(2, output), writeText(4, "Cast")];
  return writeBytes(1, join([...names, writeBytes(5, attribute)]));
}
