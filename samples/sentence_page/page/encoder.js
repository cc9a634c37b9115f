// Vectors of sentences: the mean of the rows of their tokens, of length 1.
//
//   v = sum of row(t) over the known tokens t of a sentence,   vector = v / |v|      (zeros without a known token)

import { Tokenizer } from "@huggingface/tokenizers";
import { loadKernels } from "edge-embed-web";

// Reads the files of the page. `base` is the address of their folder.
export async function loadEncoder(base = new URL(".", import.meta.url)) {
  const [kernels, tokenizer, bytes] = await Promise.all([
    loadKernels(),
    fetchFile(new URL("tokenizer.json", base)).then((response) => response.json()),
    fetchFile(new URL("tables.safetensors", base)).then((response) => response.arrayBuffer()),
  ]);
  const tables = await kernels.openTables(bytes);
  return new Encoder(tokenizer, tables.get("tokens"));
}

async function fetchFile(url) {
  const response = await fetch(url);
  if (!response.ok) {
    throw new Error(`${url}: got status ${response.status}, expected a file of the page: serve its whole folder`);
  }
  return response;
}

export class Encoder {
  #tokenizer;
  #table;
  #unknown;

  constructor(content, table) {
    this.#tokenizer = new Tokenizer(content, {});
    this.#table = table;
    this.#unknown = this.#tokenizer.token_to_id(content.model.unk_token ?? "");
  }

  get columns() {
    return this.#table.columns;
  }

  // Ids of the known tokens of a text.
  tokenize(text) {
    const { ids } = this.#tokenizer.encode(text, { add_special_tokens: false });
    return ids.filter((id) => id !== this.#unknown);
  }

  // Float32Array [texts, columns].
  encode(texts) {
    const ids = [];
    const offsets = [0];
    for (const text of texts) {
      for (const id of this.tokenize(text)) ids.push(id);
      offsets.push(ids.length);
    }
    const vectors = this.#table.bag(Int32Array.from(ids), offsets, { mode: "mean" });
    for (let begin = 0; begin < vectors.length; begin += this.columns) {
      scaleToLength1(vectors.subarray(begin, begin + this.columns));
    }
    return vectors;
  }
}

function scaleToLength1(vector) {
  const length = Math.hypot(...vector);
  if (length > 0) for (let i = 0; i < vector.length; ++i) vector[i] /= length;
}

// Cosine of two vectors of length 1.
export function cosine(one, other) {
  return one.reduce((sum, number, i) => sum + number * other[i], 0);
}
