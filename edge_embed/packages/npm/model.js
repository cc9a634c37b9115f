// An exported ONNX model as tables, and models for onnxruntime-web with all other nodes (split.js).

import { check, shown } from "./errors.js";
import { isHalf, isTableNode, readTableNode } from "./nodes.js";
import { readModel } from "./onnx.js";
import { ModelSession } from "./session.js";
import { WHOLE, planParts, writePart } from "./split.js";

export function openModel(bytes, externalData, makeTables) {
  const model = readModel(bytes);
  const nodes = model.graph.nodes.filter(isTableNode);
  check(nodes.length, () => "file: got a model without nodes of edge-embed, expected some: export the model with edge-embed export");
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
  const plan = planParts(model.graph, steps);
  const parts = Object.fromEntries(Object.entries(plan.parts).map(([name, part]) => [name, writePart(model, part)]));
  const tables = makeTables(specs);
  for (const step of steps) step.table = tables.get(labels.get(step.key));
  return new Model(tables, parts, plan);
}

class Model {
  #plan;

  constructor(tables, parts, plan) {
    [this.tables, this.parts, this.#plan] = [tables, parts, plan];
  }

  async createSession(ort, options) {
    check(
      typeof ort?.InferenceSession?.create === "function" && typeof ort.Tensor === "function",
      () => `ort: got ${shown(ort)}, expected the module onnxruntime-web: import * as ort from "onnxruntime-web"`,
    );
    const sessions = {};
    for (const [name, bytes] of Object.entries(this.parts)) {
      if (bytes.length) sessions[name] = await ort.InferenceSession.create(bytes, options);
    }
    return new ModelSession(ort, sessions, this.#plan);
  }

  free() {
    for (const table of this.tables.values()) table.free();
  }
}

function checkOthers({ graph, functions }) {
  const hidden = graph.nodes.flatMap(({ inner }) => inner).find(isTableNode);
  check(!hidden, () => `node ${shown(hidden.name)}: is inside a loop or branch, expected it in the graph of the model: ${WHOLE}`);
  for (const { name, domain, nodes } of functions) {
    if (isTableNode({ domain, type: name })) continue;
    const called = nodes.find((node) => isTableNode(node));
    check(!called, () => `function ${shown(name)}: calls ${called.type}, expected it in the graph of the model: ${WHOLE}`);
  }
}
