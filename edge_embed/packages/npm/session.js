// A session that runs a whole model: lookups and bags, the rest in onnxruntime-web, and output layers.

import { EdgeEmbedError, check, shown } from "./errors.js";
import { WIDE } from "./split.js";

const IDS = ["int32", "int64"];

export class ModelSession {
  #ort;
  #sessions;
  #plan;
  #arrays = new Map();

  constructor(ort, sessions, plan) {
    [this.#ort, this.#sessions, this.#plan] = [ort, sessions, plan];
    [this.inputNames, this.outputNames] = [[...plan.inputs.keys()], plan.outputs];
  }

  // Tensors of onnxruntime-web by name, in and out. Rows, logits and values are float32.
  async run(feeds) {
    const { first, last, outputs, inputs } = this.#plan;
    const sessions = this.#sessions;
    check(sessions, () => "session: got a released session, expected one in use: call release() last");
    const values = new Map(Object.entries(readFeeds(feeds)));
    for (const [name, expected] of inputs) checkTensor(name, feed(values, name), expected);
    for (const name of values.keys()) {
      check(
        this.inputNames.includes(name),
        () => `input ${shown(name)}: got a tensor, expected one of ${this.inputNames.join(", ")}: leave it out`,
      );
    }
    await runPart(sessions.before, values);
    for (const step of first) setMade(values, step.outputs[0], this.#rows(step, values));
    await runPart(sessions.rest, values);
    for (const step of last) this.#outputLayer(step, values);
    await runPart(sessions.after, values);
    for (const { use, outputs: [name] } of first) {
      if (use === "lookup" && !outputs.includes(name)) this.#arrays.set(name, values.get(name).data);
    }
    return Object.fromEntries(outputs.map((name) => [name, feed(values, name)]));
  }

  // A second call does nothing.
  async release() {
    const sessions = Object.values(this.#sessions ?? {});
    this.#sessions = undefined;
    for (const session of sessions) await session.release();
  }

  #rows(step, values) {
    try {
      return this.#ofTable(step, values);
    } catch (error) {
      if (error instanceof EdgeEmbedError) error.message = `${this.#origin(step)}: ${error.message}`;
      throw error;
    }
  }

  // The place of ids and offsets. The model may compute them from inputs, as the end of the last bag.
  #origin({ what, given }) {
    const isComputed = given.some((name) => !this.inputNames.includes(name));
    return isComputed ? `${what}, whose ids or offsets the model computes from its inputs` : what;
  }

  #ofTable({ use, table, given, outputs, mode, constant }, values) {
    const value = (name) => (values.has(name) ? feed(values, name) : constantTensor(constant(name)));
    const ids = value(given[0]);
    check(IDS.includes(ids.type), () => `ids: got ${ids.type}, expected int32 or int64: export the model again`);
    if (use === "lookup") {
      const out = this.#kept(outputs[0], ids.data.length * table.columns);
      return this.#tensor(table.lookup(ids.data, { out }), [...ids.dims, table.columns]);
    }
    const offsets = value(given[1]);
    const weights = given[2] ? value(given[2]).data : undefined;
    const bags = table.bag(ids.data, offsets.data, { mode, weights });
    return this.#tensor(bags, [bags.length / table.columns, table.columns]);
  }

  // The array of an earlier call, for rows that are no output: a new array costs more than a lookup.
  #kept(name, length) {
    if (this.outputNames.includes(name)) return undefined;
    const array = this.#arrays.get(name);
    this.#arrays.delete(name); // another call may begin before this one ends
    return array?.length === length ? array : new Float32Array(length);
  }

  #outputLayer({ use, table, given, outputs, k, constant }, values) {
    const [name, bias] = given;
    const hidden = values.get(name + WIDE) ?? feed(values, name);
    const { dims, data } = hidden;
    check(
      dims.at(-1) === table.columns,
      () => `hidden states ${shown(name)}: got shape ${shown(dims)}, expected the last of ${table.columns}: pass whole states`,
    );
    const before = dims.slice(0, -1);
    if (use === "logits") {
      setMade(values, outputs[0], this.#tensor(table.logits(data), [...before, table.rows]));
      return;
    }
    const added = bias ? constantTensor(constant(bias)).data : undefined;
    const best = table.topk(data, k, { bias: added });
    setMade(values, outputs[0], this.#tensor(best.values, [...before, k]));
    values.set(outputs[1], new this.#ort.Tensor("int64", best.ids, [...before, k]));
  }

  #tensor(data, dims) {
    return new this.#ort.Tensor("float32", data, dims);
  }
}

// A result of a table, under its name and the name of its float32 input of a part.
function setMade(values, name, tensor) {
  values.set(name, tensor);
  values.set(name + WIDE, tensor);
}

async function runPart(session, values) {
  if (!session) return;
  const given = session.inputNames.map((name) => [name, feed(values, name)]);
  const results = await session.run(Object.fromEntries(given));
  for (const [name, tensor] of Object.entries(results)) values.set(name, tensor);
}

function feed(values, name) {
  const tensor = values.get(name);
  check(tensor, () => `input ${shown(name)}: got none, expected a tensor: pass one for each of inputNames`);
  return tensor;
}

function readFeeds(feeds) {
  const isObject = typeof feeds === "object" && feeds !== null;
  check(isObject, () => `feeds: got ${shown(feeds)}, expected an object: pass tensors by name of the input`);
  return feeds;
}

// Throws unless a tensor has the type and the sizes of an input.
function checkTensor(name, tensor, { type, dims }) {
  const isTensor = typeof tensor === "object" && typeof tensor.type === "string" && Array.isArray(tensor.dims);
  const fits =
    isTensor &&
    (type === undefined || tensor.type === type) &&
    (dims === undefined ||
      (tensor.dims.length === dims.length && dims.every((size, axis) => size === undefined || size === tensor.dims[axis])));
  const sizes = dims?.map((size) => size ?? "any");
  const expected = `expected a tensor ${type ?? ""} ${sizes ? `[${sizes.join(", ")}]` : ""}`.trim();
  check(fits, () => {
    const got = isTensor ? `${tensor.type} ${shown(tensor.dims)}` : shown(tensor);
    return `input ${shown(name)}: got ${got}, ${expected}: convert it, or change its dims`;
  });
}

const ARRAYS = { int32: Int32Array, int64: BigInt64Array, float32: Float32Array };

function constantTensor({ dtype, shape, bytes }) {
  const Values = ARRAYS[dtype];
  check(Values, () => `constant: got ${dtype}, expected one of ${Object.keys(ARRAYS)}: export the model again`);
  return { type: dtype, dims: shape, data: new Values(bytes.slice().buffer) };
}
