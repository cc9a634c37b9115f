// Messages of protocol buffers: their fields one by one, with every length checked, and the few kinds that are written.

import { AGAIN, EdgeEmbedError, check } from "./errors.js";

const VARINT = 0;
const EIGHT = 1;
const BYTES = 2;
const FOUR = 5;

// Yields { number, value, raw }: value is a BigInt for varints, and bytes for all others; raw has the tag too.
export function* fields(message) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      check(at < message.length, truncated);
      const byte = message[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new EdgeEmbedError(damaged());
  };
  const take = (length) => {
    check(length <= message.length - at, truncated);
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const begin = at;
    const tag = varint();
    const [number, wire] = [Number(tag >> 3n), Number(tag & 7n)];
    let value;
    if (wire === VARINT) value = varint();
    else if (wire === EIGHT) value = take(8);
    else if (wire === BYTES) value = take(Number(varint()));
    else if (wire === FOUR) value = take(4);
    else throw new EdgeEmbedError(damaged());
    yield { number, value, raw: message.subarray(begin, at) };
  }
}

function truncated() {
  return `file: got an end within a field, expected a whole ONNX model: ${AGAIN}`;
}

function damaged() {
  return `file: got a field of another kind, expected an ONNX model: ${AGAIN}`;
}

export function bytesOf(value) {
  check(value instanceof Uint8Array, damaged);
  return value;
}

export function textOf(value) {
  return new TextDecoder().decode(bytesOf(value));
}

// A signed number, or its packed list.
export function integersOf(value) {
  if (typeof value === "bigint") return [Number(BigInt.asIntN(64, value))];
  const list = [];
  for (let at = 0, number = 0n, shift = 0n; at < value.length; ++at) {
    number |= BigInt(value[at] & 0x7f) << shift;
    shift += 7n;
    if (value[at] >= 0x80) continue;
    list.push(Number(BigInt.asIntN(64, number)));
    [number, shift] = [0n, 0n];
  }
  return list;
}

export function integerOf(value) {
  check(typeof value === "bigint", damaged);
  return Number(BigInt.asIntN(64, value));
}

export function writeInteger(number, value) {
  return join([writeVarint(number << 3), writeVarint(value)]);
}

export function writeBytes(number, bytes) {
  return join([writeVarint((number << 3) | BYTES), writeVarint(bytes.length), bytes]);
}

export function writeText(number, text) {
  return writeBytes(number, new TextEncoder().encode(text));
}

export function join(parts) {
  const bytes = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function writeVarint(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push((value % 0x80) + 0x80);
  return Uint8Array.from([...bytes, value]);
}
