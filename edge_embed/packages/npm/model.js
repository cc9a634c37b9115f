// An exported ONNX model as tables and the rest, which onnxruntime-web runs.
//
//   before  nodes that compute ids or offsets, if there are any
//           look-ups and bags: their rows become inputs of the rest
//   rest    all other nodes
//           output layers: their hidden states are outputs of the rest, and their logits are outputs of the model

import { check, shown } from "./errors.js";
import { isHalf, isTableNode, readTableNode } from "./nodes.js";
import { FLOAT16, FLOAT32, readModel, writeCast, writeValue } from "./onnx.js";
import { join, writeBytes } from "./protobuf.js";
import { ModelSession } from "./session.js";

const WIDE = ".float32"; // end of the names of values that are passed as float32
const GRAPH = 7;
const NOTHING = new Uint8Array(0);

export function openModel(bytes, externalData, makeTables) {
  const model = readModel(bytes);
  const nodes = model.graph.nodes.filter(isTableNode);
  check(nodes.length, () => "file: got a model without nodes of edge-embed, expected an exported model: edge-embed export");
  checkOthers(model);
  const steps = nodes.map((node) => readTableNode(node, model.graph.initializers, externalData));
  const specs = new Map();
  const labels = new Map();
  for (const step of steps) {
    if (labels.has(step.key)) continue;
    let label = step.label;
    for (let number = 2; specs.has(label); ++number) label = `${step.label}_${number}`;
    labels.set(step.key, label);
    specs.set(label, step.spec());
  }
  for (const step of steps) step.isHalf = isHalf(specs.get(labels.get(step.key)));
  const plan = planSteps(model.graph, steps);
  const rest = plan.isEmpty ? NOTHING : writeRest(model, plan);
  const before = plan.before.nodes.length ? writeBefore(model, plan.before) : NOTHING;
  const tables = makeTables(specs);
  for (const step of steps) step.table = tables.get(labels.get(step.key));
  return new Model(tables, before, rest, plan);
}

class Model {
  #plan;

  constructor(tables, before, rest, plan) {
    [this.tables, this.before, this.rest, this.#plan] = [tables, before, rest, plan];
  }

  async createSession(ort, options) {
    const create = (bytes) => (bytes.length ? ort.InferenceSession.create(bytes, options) : undefined);
    return new ModelSession(ort, await create(this.before), await create(this.rest), this.#plan);
  }

  free() {
    for (const table of this.tables.values()) table.free();
  }
}

function checkOthers({ graph, functions }) {
  const hidden = graph.nodes.flatMap(({ inner }) => inner).find(isTableNode);
  check(!hidden, () => `node ${shown(hidden.name)}: is inside a loop or branch, expected it in the graph of the model`);
  for (const { name, domain, nodes } of functions) {
    if (isTableNode({ domain, type: name })) continue;
    const called = nodes.find((node) => isTableNode(node));
    check(!called, () => `function ${shown(name)}: calls ${called.type}, expected it in the graph of the model`);
  }
}

// What runs before the rest and after it, and the values that are passed.
function planSteps(graph, steps) {
  const others = graph.nodes.filter((node) => !isTableNode(node));
  const readers = new Set(others.flatMap((node) => [node, ...node.inner]).flatMap(({ inputs }) => inputs));
  const computed = new Set(others.flatMap(({ outputs }) => outputs));
  const first = steps.filter(({ use }) => use === "lookup" || use === "bag");
  const last = steps.filter((step) => !first.includes(step));
  const rows = new Map(first.map((step) => [step.outputs[0], step]));
  const before = nodesBefore(graph, others, first);
  for (const { what, outputs, given } of last) {
    const read = outputs.find((name) => readers.has(name));
    check(read === undefined, () => `${what}: got ${shown(read)}, which the graph reads, expected an output of the model`);
    const [hidden] = given;
    check(
      computed.has(hidden) || graph.inputs.has(hidden) || rows.has(hidden),
      () => `${what}: got hidden states ${shown(hidden)}, expected a value that the graph computes`,
    );
  }
  const made = new Set(steps.flatMap(({ outputs }) => outputs));
  const hidden = [...new Set(last.map(({ given }) => given[0]).filter((name) => computed.has(name)))];
  const outputs = [...graph.outputs.keys()];
  const kept = outputs.filter((name) => !made.has(name));
  const isEmpty = hidden.length === 0 && kept.length === 0;
  const inputs = [...graph.inputs.keys()];
  return { before, first, last, others, readers, hidden, kept, outputs, isEmpty, inputs, wide: WIDE };
}

// The nodes that compute ids, offsets and weights of look-ups and bags, and those values.
function nodesBefore(graph, others, first) {
  const makers = new Map(others.flatMap((node) => node.outputs.map((name) => [name, node])));
  const values = new Set();
  const nodes = new Set();
  for (const { what, given } of first) {
    const needed = given.filter((name) => name && makers.has(name));
    for (const name of needed) values.add(name);
    for (const name of given.filter(Boolean)) visit(name, what);
  }
  return { nodes: others.filter((node) => nodes.has(node)), values: [...values] };

  function visit(name, what) {
    for (const waiting = [name]; waiting.length; ) {
      const next = waiting.pop();
      const maker = makers.get(next);
      check(
        maker || graph.inputs.has(next) || graph.initializers.has(next),
        () => `${what}: got ${shown(next)}, which another table computes, expected ids that need no rows`,
      );
      if (!maker || nodes.has(maker)) continue;
      nodes.add(maker);
      check(!maker.inner.length, () => `${what}: got ids of a loop or branch, expected ids without one`);
      waiting.push(...maker.inputs.filter(Boolean));
    }
  }
}

function writeBefore({ others: fields, graph, functions }, { nodes, values }) {
  const read = new Set(nodes.flatMap(({ inputs }) => inputs));
  const infos = new Map(graph.infos.map(({ name, bytes }) => [name, bytes]));
  const parts = [...graph.others, ...nodes.map(({ raw }) => raw)];
  for (const [name, { raw }] of graph.initializers) if (read.has(name)) parts.push(raw);
  for (const [name, raw] of graph.inputs) if (read.has(name)) parts.push(raw);
  for (const name of values) {
    check(infos.has(name), () => `value ${shown(name)}: got no type in the file, expected value_info: export the model again`);
    parts.push(writeBytes(12, infos.get(name)));
  }
  return join([...fields, writeBytes(GRAPH, join(parts)), ...ownFunctions(functions)]);
}

function ownFunctions(functions) {
  return functions.filter(({ domain, name }) => !isTableNode({ domain, type: name })).map(({ raw }) => raw);
}

function writeRest({ others: fields, graph, functions }, { first, others, readers, hidden, kept }) {
  const parts = [...graph.others];
  const passed = new Set(hidden);
  for (const { outputs, isHalf } of first) {
    const [name] = outputs;
    if (!readers.has(name)) continue;
    passed.add(name);
    parts.push(writeValue(11, name + WIDE, FLOAT32), writeCast(name + WIDE, name, isHalf ? FLOAT16 : FLOAT32));
  }
  parts.push(...others.map(({ raw }) => raw));
  const isUsed = (name) => readers.has(name) || kept.includes(name);
  for (const [name, { raw }] of graph.initializers) if (isUsed(name)) parts.push(raw);
  for (const [name, raw] of graph.inputs) if (isUsed(name)) parts.push(raw);
  for (const name of kept) parts.push(graph.outputs.get(name));
  for (const name of hidden) parts.push(writeCast(name, name + WIDE, FLOAT32), writeValue(12, name + WIDE, FLOAT32));
  const computed = new Set(others.flatMap(({ outputs }) => outputs));
  for (const { name, raw } of graph.infos) if (computed.has(name)) parts.push(raw);
  return join([...fields, writeBytes(GRAPH, join(parts)), ...ownFunctions(functions)]);
}
