// Suggests the next word of a text with the bundle of samples/next_word.

import { listOf, TEXT } from "./json.js";

const [PADDING, UNKNOWN] = [0, 1];
// A word, or a single sign. The model was trained on words of the Python expression, which has the same meaning.
const PYTHON_TOKEN = "\\w+(?:[.'-]\\w+)*|[^\\w\\s]";
// The classes \w and \s of Python; \s of JavaScript lacks separators such as U+001C.
const LETTER = String.raw`\p{L}\p{N}_`;
const SPACE = String.raw`\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000`;
export const TOKEN = new RegExp(`[${LETTER}]+(?:[.'-][${LETTER}]+)*|[^${LETTER}${SPACE}]`, "gu");

export class NextWord {
  #session;
  #ort;
  #words;
  #ids;

  // `bundle` is the result of openBundle, `ort` is onnxruntime-web.
  constructor(bundle, ort) {
    const token = bundle.manifest.metadata.tokenizer;
    if (token !== PYTHON_TOKEN) {
      throw new Error(`bundle.json: got tokenizer ${token}, expected ${PYTHON_TOKEN}: export the model of samples/next_word`);
    }
    this.#session = bundle.session;
    this.#ort = ort;
    this.#words = bundle.json("vocabulary.json", listOf(TEXT));
    this.#ids = new Map(this.#words.map((word, id) => [word, id]));
  }

  // Ids of the words of a text, after the padding that begins every text.
  encode(text) {
    return [PADDING, ...Array.from(text.match(TOKEN) ?? [], (word) => this.#ids.get(word) ?? UNKNOWN)];
  }

  // The likeliest next words, with their probabilities, likeliest first: [{ word, probability }].
  async suggest(text, count = 3) {
    const ids = this.encode(text);
    const shape = [1, ids.length];
    const { output } = await this.#session.run({ ids: new this.#ort.Tensor("int64", BigInt64Array.from(ids, BigInt), shape) });
    const answers = output.dims[2]; // output: [1, ids, answers]
    if (answers > this.#words.length) {
      throw new Error(`vocabulary.json: got ${this.#words.length} words, expected ${answers}: export the bundle again`);
    }
    const logits = output.data.subarray((ids.length - 1) * answers);
    const largest = logits.reduce((a, b) => Math.max(a, b));
    const chances = Array.from(logits, (logit) => Math.exp(logit - largest));
    const sum = chances.reduce((a, b) => a + b);
    const found = chances.map((chance, id) => ({ word: this.#words[id], probability: chance / sum }));
    const isWord = ({ word }) => /^[\p{L}\p{N}]/u.test(word); // neither a sign nor <unk>
    return found.filter(isWord).sort((a, b) => b.probability - a.probability).slice(0, count);
  }
}
