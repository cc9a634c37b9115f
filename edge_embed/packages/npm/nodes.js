// The nodes of an exported model that look up, reduce or multiply rows of a table, and the tables that they share.
// docs/reference/operators.md of edge-embed describes them.

import { AGAIN, check, shown } from "./errors.js";
import { readTensor } from "./onnx.js";

export const DOMAIN = "edge_embed";
const PREFIXES = { DPQScaled: "dpq", DPQ: "dpq", ANT: "ant", TTOrdered: "tt", TT: "tt" };
// Number of inputs before the tensors of the table, and whether rows come out of the node.
const USES = {
  Embedding: { use: "lookup", given: 1 },
  EmbeddingBag: { use: "bag", given: 3 },
  Logits: { use: "logits", given: 1 },
  TopK: { use: "topk", given: 2 },
};
const TYPE = new RegExp(`^(${Object.keys(PREFIXES).join("|")})(${Object.keys(USES).join("|")})$`);
const MODES = ["sum", "mean", "max"];
const TENSORS = {
  DPQ: (count) => ["codes", "values", "value_scales"].slice(0, count),
  DPQScaled: (count) =>
    count <= 3
      ? TENSORS.DPQ(count)
      : [...TENSORS.DPQ(count - 2), "row_scale_codes", "row_scales"],
  ANT: () => ["row_offsets", "anchor_ids", "weights", "weight_scale", "anchors"],
  TT: (count) => Array.from({ length: count }, (_, k) => `core_${k}`),
  TTOrdered: (count) => [...TENSORS.TT(count - 1), "row_order"],
};

export function isTableNode({ domain, type }) {
  return domain === DOMAIN && TYPE.test(type);
}

// Describes a node: its use, its dynamic inputs, and the key and the spec of its table.
export function readTableNode(node, initializers, externalData) {
  const [, prefix, suffix] = TYPE.exec(node.type);
  const { use, given } = USES[suffix];
  const what = `node ${shown(node.name || node.type)}`;
  const sources = node.inputs.slice(given);
  const { format_version: version, mode = 0, weighted = 0, k = 1, biased = 0 } = node.attributes;
  check(version === 1, () => `${what}: got format_version ${shown(version)}, expected 1: update edge-embed-web`);
  const names = TENSORS[prefix](sources.length);
  check(
    names.length === sources.length,
    () => `${what}: got ${sources.length} tensors, expected ${names.length}: ${AGAIN}`,
  );
  const constant = (name) => {
    const stored = initializers.get(name);
    check(stored, () => `${what}: got ${shown(name)}, which the graph computes, expected a stored tensor: export the model again`);
    return readTensor(name, stored, externalData);
  };
  const isRead = use === "bag" ? [true, true, weighted === 1] : [true, biased === 1];
  const { num_codes, num_groups, bits, num_embeddings, padding_idx, unused_columns } = node.attributes;
  const attributes = { num_codes, num_groups, bits, num_embeddings, padding_idx, unused_columns };
  return {
    ...{ use, what, constant, outputs: node.outputs, mode: MODES[mode], k },
    given: node.inputs.slice(0, given).filter((_, index) => isRead[index] ?? true),
    key: JSON.stringify([prefix, sources, attributes]),
    label: sources[0].includes(".") ? sources[0].slice(0, sources[0].lastIndexOf(".")) : node.name || sources[0],
    spec() {
      const tensors = Object.fromEntries(names.map((name, index) => [name, constant(sources[index])]));
      return { method: PREFIXES[prefix], tensors, attributes };
    },
  };
}

// The ONNX type of the rows: that of the stored numbers, or float32 if they have scales.
export function isHalf({ tensors }) {
  const { values, anchors, core_0: core, row_scales: scales } = tensors;
  return !scales && (values ?? anchors ?? core).dtype === "float16";
}
