// A table: lookups, bags, logits and top-k, with checks of what the caller passes.
//
// Rows may have scales, and tensor trains an order of rows. The kernels know neither, so both are applied here:
//   row(id) = row_scales[row_scale_codes[id]] * kernel_row(id), rounded once      row(id) = kernel_row(row_order[id])

import { readFloats, readIds, readMode, readOffsets, readOptions, readOut } from "./arguments.js";
import { Calls } from "./calls.js";
import { AGAIN, EdgeEmbedError, check, shown } from "./errors.js";
import { reduceRows } from "./reduce.js";
import { selectLargest } from "./select.js";
import { checkedSizes } from "./specs.js";

export class Table {
  #calls;
  #padding;
  #order; // Int32Array: the row of each id
  #scaleCodes;
  #scales;

  constructor(kernels, spec, name) {
    this.name = name;
    this.method = spec.method;
    try {
      const sizes = checkedSizes(spec);
      const { rows, columns } = spec.declared ?? sizes;
      check(
        rows === sizes.rows && columns === sizes.columns,
        () => `tensors: got rows [${sizes.rows}, ${sizes.columns}], expected [${rows}, ${columns}]: ${AGAIN}`,
      );
      const { row_order: order, row_scale_codes: codes, row_scales: scales } = spec.tensors;
      if (order) this.#order = new Int32Array(order.bytes.slice().buffer);
      if (codes) [this.#scaleCodes, this.#scales] = [codes.bytes.slice(), new Float32Array(scales.bytes.slice().buffer)];
      [this.rows, this.columns, this.#padding] = [sizes.rows, sizes.columns, sizes.fields.padding_idx];
      const wide = sizes.columns + (spec.attributes.unused_columns ?? 0);
      this.#calls = new Calls(kernels, spec, { ...sizes, columns: wide });
    } catch (error) {
      if (error instanceof EdgeEmbedError) error.message = `table ${shown(name)}: ${error.message}`;
      throw error;
    }
  }

  get paddingIdx() {
    return this.#padding < 0 ? null : this.#padding;
  }

  free() {
    this.#calls.free();
  }

  lookup(ids, options) {
    const { out } = readOptions(options);
    const read = readIds(ids);
    const given = readOut(out, read.length * this.columns);
    if (this.#isPlain) return this.#calls.lookup(this.#placed(read), given);
    const rows = this.#cut(this.#calls.lookup(read));
    if (this.#scales) {
      read.forEach((id, i) => this.#scaleRow(rows.subarray(i * this.columns, (i + 1) * this.columns), Number(id)));
    }
    return moved(rows, given);
  }

  bag(ids, offsets, options) {
    const { mode = "sum", weights, out } = readOptions(options);
    const number = readMode(mode);
    const read = readIds(ids);
    const starts = readOffsets(offsets, read.length);
    check(weights === undefined || mode === "sum", () => `weights: got weights with mode ${mode}, expected mode "sum": multiply rows of lookup() instead`);
    const factors = weights === undefined ? undefined : readFloats("weights", weights, read.length);
    const given = readOut(out, (starts.length - 1) * this.columns);
    if (this.#isPlain) return this.#calls.bag(this.#placed(read), starts, factors, number, given);
    const rows = this.lookup(read);
    const bags = { rows, columns: this.columns, ids: read, starts, factors, mode, padding: this.#padding };
    return moved(reduceRows(bags), given);
  }

  logits(hidden, options) {
    const { out } = readOptions(options);
    const states = this.#states(hidden);
    const given = readOut(out, (states.length / this.#calls.columns) * this.rows);
    if (!this.#order && !this.#scales) return this.#calls.logits(states, given);
    const logits = this.#calls.logits(states);
    const result = given ?? new Float32Array(logits.length);
    for (let begin = 0; begin < logits.length; begin += this.rows) {
      for (let id = 0; id < this.rows; ++id) {
        const logit = logits[begin + (this.#order ? this.#order[id] : id)];
        result[begin + id] = this.#scales ? logit * this.#scales[this.#scaleCodes[id]] : logit;
      }
    }
    return result;
  }

  topk(hidden, k, options) {
    const { bias } = readOptions(options);
    checkK(k, this.rows);
    const added = bias === undefined ? undefined : readFloats("bias", bias, this.rows);
    if (!this.#order && !this.#scales) return this.#calls.topk(this.#states(hidden), k, added);
    return selectLargest(this.logits(hidden), this.rows, k, added);
  }

  get #isPlain() {
    return !this.#scales && this.#calls.columns === this.columns;
  }

  #placed(ids) {
    if (!this.#order) return ids;
    return Int32Array.from(ids, (id, position) => {
      const row = this.#order[id];
      check(row !== undefined, () => `ids: position ${position}: got ${id}, expected 0 to ${this.rows - 1}: pass rows of the table`);
      return row;
    });
  }

  // Hidden states, with zeros for the columns that rows do not have.
  #states(hidden) {
    const states = readFloats("hidden", hidden);
    check(
      states.length % this.columns === 0,
      () => `hidden: got ${states.length} numbers, expected a multiple of ${this.columns}, the columns of the table: pass whole states`,
    );
    const { columns: wide } = this.#calls;
    if (wide === this.columns) return states;
    const padded = new Float32Array((states.length / this.columns) * wide);
    for (let from = 0, to = 0; from < states.length; from += this.columns, to += wide) {
      padded.set(states.subarray(from, from + this.columns), to);
    }
    return padded;
  }

  #cut(rows) {
    const { columns: wide } = this.#calls;
    if (wide === this.columns) return rows;
    const cut = new Float32Array((rows.length / wide) * this.columns);
    for (let from = 0, to = 0; from < rows.length; from += wide, to += this.columns) {
      cut.set(rows.subarray(from, from + this.columns), to);
    }
    return cut;
  }

  #scaleRow(row, id) {
    const scale = this.#scales[this.#scaleCodes[id]];
    for (let column = 0; column < row.length; ++column) row[column] *= scale;
  }
}

// The result, in the array of the caller if there is one.
function moved(result, given) {
  given?.set(result);
  return given ?? result;
}

const MOST_K = 1000;

function checkK(k, rows) {
  const most = Math.min(MOST_K, rows);
  check(Number.isInteger(k) && k >= 1 && k <= most, () => `k: got ${shown(k)}, expected an integer from 1 to ${most}: pass a smaller one`);
}
