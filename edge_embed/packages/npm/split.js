// The nodes of a model that use no table, in three parts, each of which is a model of its own:
//
//   before  nodes that compute ids, offsets or weights
//           lookups and bags: their rows are inputs of the next parts
//   rest    all other nodes
//           output layers: their hidden states are outputs of the rest
//   after   nodes that read logits
//
// Rows, hidden states and logits are passed as float32, under names that end in WIDE, and cast to their type in the file.

import { check, shown } from "./errors.js";
import { isTableNode } from "./nodes.js";
import { FLOAT16, FLOAT32, INT64, tensorOfValue, typeOfValue, writeCast, writeValue } from "./onnx.js";
import { join, writeBytes } from "./protobuf.js";

export const WIDE = ".float32";
export const WHOLE = "run the whole model in onnxruntime-web";
const GRAPH = 7; // fields of a model and of a graph
const INPUT = 11;
const OUTPUT = 12;

export function planParts(graph, steps) {
  const others = graph.nodes.filter((node) => !isTableNode(node));
  const first = steps.filter(({ use }) => use === "lookup" || use === "bag");
  const last = steps.filter((step) => !first.includes(step));
  const late = new Set(last.flatMap(({ outputs }) => outputs));
  const after = [];
  for (const node of others) {
    if (!reads(node).some((name) => late.has(name))) continue;
    after.push(node);
    for (const name of node.outputs) late.add(name);
  }
  for (const { what, given } of steps) {
    const read = given.find((name) => late.has(name));
    check(read === undefined, () => `${what}: got ${shown(read)}, which needs logits of a table, expected none that does: ${WHOLE}`);
  }
  const rest = others.filter((node) => !after.includes(node));
  const made = new Map(steps.flatMap((step) => step.outputs.map((name, index) => [name, { step, index }])));
  const outputs = [...graph.outputs.keys()];
  const isMadeAfter = new Set(after.flatMap((node) => node.outputs));
  const isMadeByRest = new Set(rest.flatMap((node) => node.outputs));
  checkHidden(graph, last, isMadeByRest, made);
  const passed = [...new Set(after.flatMap(reads))].filter((name) => isMadeByRest.has(name));
  const parts = {
    before: { ...nodesBefore(graph, rest, first), made },
    rest: {
      ...{ nodes: rest, made, passed },
      kept: outputs.filter((name) => !made.has(name) && !isMadeAfter.has(name)),
      hidden: [...new Set(last.map(({ given }) => given[0]))].filter((name) => isMadeByRest.has(name)),
    },
    after: { nodes: after, made, received: passed, kept: outputs.filter((name) => isMadeAfter.has(name)) },
  };
  const inputs = new Map([...graph.inputInfos].map(([name, { bytes }]) => [name, tensorOfValue(bytes)]));
  return { parts, first, last, outputs, inputs };
}

function reads(node) {
  return [node, ...node.inner].flatMap(({ inputs }) => inputs).filter(Boolean);
}

function checkHidden(graph, last, isMadeByRest, made) {
  for (const { what, given } of last) {
    const [hidden] = given;
    check(
      isMadeByRest.has(hidden) || graph.inputs.has(hidden) || made.has(hidden),
      () => `${what}: got hidden states ${shown(hidden)}, expected a value that the graph computes: ${WHOLE}`,
    );
  }
}

function nodesBefore(graph, nodes, first) {
  const makers = new Map(nodes.flatMap((node) => node.outputs.map((name) => [name, node])));
  const needed = new Set();
  for (const { what, given } of first) {
    for (const waiting = given.filter(Boolean); waiting.length; ) {
      const name = waiting.pop();
      const maker = makers.get(name);
      check(
        maker || graph.inputs.has(name) || graph.initializers.has(name),
        () => `${what}: got ${shown(name)}, which another table computes, expected ids that need no rows: ${WHOLE}`,
      );
      if (!maker || needed.has(maker)) continue;
      needed.add(maker);
      waiting.push(...reads(maker));
    }
  }
  const passed = [...new Set(first.flatMap(({ given }) => given))].filter((name) => makers.has(name));
  return { nodes: nodes.filter((node) => needed.has(node)), passed };
}

// The bytes of a part; none if nothing is asked of it.
//
//   made      outputs of table nodes      kept      outputs of the model     hidden  outputs that tables multiply
//   received  inputs from earlier parts   passed    outputs for later parts or for tables
export function writePart({ others, graph, functions }, { nodes, made, received = [], passed = [], kept = [], hidden = [] }) {
  if (!passed.length && !kept.length && !hidden.length) return new Uint8Array(0);
  const read = new Set(nodes.flatMap(reads));
  const isUsed = (name) => read.has(name) || kept.includes(name);
  const typed = (field, name) => writeBytes(field, infoOf(graph, name).bytes);
  const parts = [...graph.others];
  for (const name of read) if (made.has(name)) parts.push(...writeMade(graph, name, made.get(name)));
  parts.push(...nodes.map(({ raw }) => raw));
  for (const [name, { raw }] of graph.initializers) if (isUsed(name)) parts.push(raw);
  for (const [name, raw] of graph.inputs) if (isUsed(name)) parts.push(raw);
  for (const name of received) parts.push(typed(INPUT, name));
  for (const name of kept) parts.push(graph.outputs.get(name));
  for (const name of hidden) parts.push(writeCast(name, name + WIDE, FLOAT32), writeValue(OUTPUT, name + WIDE, FLOAT32));
  for (const name of passed) if (!kept.includes(name)) parts.push(typed(OUTPUT, name));
  const computed = new Set(nodes.flatMap(({ outputs }) => outputs));
  for (const { name, raw } of graph.infos) if (computed.has(name) && !passed.includes(name)) parts.push(raw);
  const own = functions.filter(({ domain, name }) => !isTableNode({ domain, type: name }));
  return join([...others, writeBytes(GRAPH, join(parts)), ...own.map(({ raw }) => raw)]);
}

// An input for the output of a table node, and its type in the file.
function writeMade(graph, name, { step, index }) {
  if (step.use === "topk" && index === 1) return [writeValue(INPUT, name, INT64)];
  const isRows = step.use === "lookup" || step.use === "bag";
  const isHalf = isRows ? step.isHalf : typeOfValue(infoOf(graph, name).bytes) === FLOAT16;
  return [writeValue(INPUT, name + WIDE, FLOAT32), writeCast(name + WIDE, name, isHalf ? FLOAT16 : FLOAT32)];
}

function infoOf(graph, name) {
  const info = graph.infos.find((each) => each.name === name) ?? graph.outputInfos.get(name);
  check(info, () => `value ${shown(name)}: got no type in the file, expected value_info: export the model again`);
  return info;
}
