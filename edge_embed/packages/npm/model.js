// An exported ONNX model as tables and the rest, which onnxruntime-web runs.
//
// Look-ups and bags come first: their ids are inputs of the model, and their rows become inputs of the rest. Output
// layers come last: their hidden states become outputs of the rest, and their logits are outputs of the model.

import { check, shown } from "./errors.js";
import { isHalf, isTableNode, readTableNode } from "./nodes.js";
import { FLOAT16, FLOAT32, readModel, writeCast, writeValue } from "./onnx.js";
import { join, writeBytes } from "./protobuf.js";
import { ModelSession } from "./session.js";

const WIDE = ".float32"; // end of the names of values that are passed as float32
const GRAPH = 7;

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
  const rest = plan.isEmpty ? new Uint8Array(0) : writeRest(model, plan);
  const tables = makeTables(specs);
  for (const step of steps) step.table = tables.get(labels.get(step.key));
  return new Model(tables, rest, plan);
}

class Model {
  #plan;

  constructor(tables, rest, plan) {
    [this.tables, this.rest, this.#plan] = [tables, rest, plan];
  }

  async createSession(ort, options) {
    const session = this.#plan.isEmpty ? undefined : await ort.InferenceSession.create(this.rest, options);
    return new ModelSession(ort, session, this.#plan);
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
  for (const { what, given } of first) {
    for (const name of given.filter(Boolean)) {
      check(
        graph.inputs.has(name) || graph.initializers.has(name),
        () => `${what}: got ${shown(name)}, which the graph computes, expected an input of the model: pass ids as they are`,
      );
    }
  }
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
  return { first, last, others, readers, hidden, kept, outputs, isEmpty, inputs: [...graph.inputs.keys()], wide: WIDE };
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
  const called = functions.filter(({ domain, name }) => !isTableNode({ domain, type: name }));
  return join([...fields, writeBytes(GRAPH, join(parts)), ...called.map(({ raw }) => raw)]);
}
