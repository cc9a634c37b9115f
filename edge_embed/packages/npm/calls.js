// Calls of the kernels for one table, whose tensors lie in their memory.

import { AGAIN, EdgeEmbedError, check } from "./errors.js";
import { BAD_ID, BAD_OFFSETS, STRUCT_BYTES, TYPES, USES, writeStruct, writeTable } from "./structs.js";

const MOST_BYTES = 2 ** 31; // of one result

export class Calls {
  #exports;
  #memory;
  #sentence;
  #owned = [];
  #table;

  constructor({ exports, memory, sentence }, { method, tensors }, { rows, columns, fields }) {
    [this.#exports, this.#memory, this.#sentence] = [exports, memory, sentence];
    [this.rows, this.columns] = [rows, columns];
    try {
      const all = { ...fields, ...FIELDS[method](tensors, (tensor) => this.#own(tensor.bytes)) };
      this.#table = this.#reserve(STRUCT_BYTES);
      writeTable(memory.view(this.#table, STRUCT_BYTES), method, all);
      this.#scratch(this.#temporary, USES.lookup); // checks the table
    } catch (error) {
      this.free();
      throw error;
    }
  }

  free() {
    for (const address of this.#owned) this.#memory.release(address);
    this.#owned = [];
    this.#table = undefined;
  }

  get isFree() {
    return this.#table === undefined;
  }

  lookup(ids, given) {
    return this.#during((put, out) => {
      const struct = putIds(put, ids);
      const rows = out(ids.length * this.columns * 4);
      const scratch = this.#scratch(put, USES.lookup);
      this.#run(put, (bad) => this.#exports.ee_gather(this.#table, struct, ...rows.pair, ...scratch, bad), ids);
      return rows.floats(given);
    });
  }

  bag(ids, offsets, weights, mode, given) {
    return this.#during((put, out) => {
      const bags = Math.max(offsets.length - 1, 0);
      const struct = putIds(put, ids);
      const fields = { offsets: put(offsets), num_bags: bags, sample_weights: weights ? put(weights) : 0, mode };
      const result = out(bags * this.columns * 4);
      const scratch = this.#scratch(put, USES.bag);
      const described = put.struct("bags", fields);
      const { ee_bag: run } = this.#exports;
      this.#run(put, (bad) => run(this.#table, struct, described, ...result.pair, ...scratch, bad), ids, offsets);
      return result.floats(given);
    });
  }

  logits(hidden, given) {
    const states = hidden.length / this.columns;
    return this.#during((put, out) => {
      const from = put(hidden);
      const logits = out(states * this.rows * 4);
      const scratch = this.#scratch(put, USES.logits);
      const { ee_logits: run } = this.#exports;
      this.#run(put, (bad) => run(this.#table, from, BigInt(states), ...logits.pair, ...scratch, bad));
      return logits.floats(given);
    });
  }

  topk(hidden, k, bias) {
    const states = hidden.length / this.columns;
    return this.#during((put, out) => {
      const from = put(hidden);
      const values = out(states * k * 4);
      const ids = out(states * k * 8);
      const fields = { k, bias: bias ? put(bias) : 0, values: values.pair[0], values_bytes: values.pair[1] };
      const best = put.struct("best", { ...fields, ids: ids.pair[0], ids_bytes: ids.pair[1] });
      const scratch = this.#scratch(put, USES.topk, k);
      const { ee_topk: run } = this.#exports;
      this.#run(put, (bad) => run(this.#table, from, BigInt(states), best, ...scratch, bad));
      return { values: values.floats(), ids: new BigInt64Array(ids.copy()) };
    });
  }

  #reserve(length) {
    const address = this.#memory.allocate(length);
    this.#owned.push(address);
    return address;
  }

  #own(bytes) {
    const address = this.#reserve(bytes.length);
    this.#memory.bytes(address, bytes.length).set(bytes);
    return address;
  }

  // Calls use(put, out): put(array) copies it into the memory, out(bytes) reserves a result.
  #during(use) {
    check(!this.isFree, () => "table: got a freed table, expected one in use: call free() last");
    return this.#memory.during((allocate) => {
      const put = (array) => {
        const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
        const address = allocate(bytes.length);
        this.#memory.bytes(address, bytes.length).set(bytes);
        return address;
      };
      put.reserve = allocate;
      put.struct = (name, fields) => {
        const address = allocate(STRUCT_BYTES);
        writeStruct(this.#memory.view(address, STRUCT_BYTES), name, fields);
        return address;
      };
      const out = (length) => {
        check(
          length <= MOST_BYTES,
          () => `result: got ${length} bytes, expected at most ${MOST_BYTES}: pass fewer values at once`,
        );
        const address = allocate(length);
        const copy = () => this.#memory.bytes(address, length).slice().buffer;
        const floats = (given) => (given ? this.#fill(given, address, length) : new Float32Array(copy()));
        return { pair: [address, length], copy, floats };
      };
      return use(put, out);
    });
  }

  // Copies a result into an array of the caller: a new array of this size costs more than most calls.
  #fill(given, address, length) {
    new Uint8Array(given.buffer, given.byteOffset, length).set(this.#memory.bytes(address, length));
    return given;
  }

  get #temporary() {
    return { reserve: (length) => this.#reserve(length) };
  }

  // Address and bytes of the scratch buffer of a use.
  #scratch(put, use, k = 0) {
    const size = put.reserve(8);
    this.#accept(this.#exports.ee_scratch_bytes(this.#table, use, BigInt(k), size));
    const bytes = this.#memory.view(size, 4).getUint32(0, true);
    return [put.reserve(bytes), bytes];
  }

  #run(put, call, ids, offsets) {
    const bad = put.reserve(8);
    this.#accept(call(bad), () => Number(this.#memory.view(bad, 8).getBigInt64(0, true)), ids, offsets);
  }

  #accept(status, position, ids, offsets) {
    if (status === 0) return;
    const at = position?.() ?? -1;
    if (status === BAD_ID && at >= 0) {
      throw new EdgeEmbedError(`ids: position ${at}: got ${ids[at]}, expected 0 to ${this.rows - 1}: pass rows of the table`);
    }
    if (status === BAD_OFFSETS && at >= 0) {
      const expected = `expected integers from 0 to ${ids.length}, the number of ids, that never decrease`;
      const got = offsets[at] ?? "none";
      throw new EdgeEmbedError(`offsets: position ${at}: got ${got}, ${expected}: sort the bags`);
    }
    const place = at < 0 ? "" : ids ? `: id ${ids[at]}` : `: row ${at}`;
    throw new EdgeEmbedError(`table: ${this.#sentence(status)}${place}: ${AGAIN}`);
  }
}

function putIds(put, ids) {
  const type = ids instanceof Int32Array ? "int32" : "int64";
  return put.struct("ids", { data: put(ids), count: ids.length, type: TYPES.indexOf(type) });
}

// The fields of a struct that describe tensors; own(tensor) copies a tensor and returns its address.
const FIELDS = {
  dpq(tensors, own) {
    const { codes, values, value_scales: scales } = tensors;
    const fields = { ...pointer("codes", codes, own), ...pointer("values", values, own) };
    fields.value_type = TYPES.indexOf(values.dtype);
    return scales ? { ...fields, ...pointer("value_scales", scales, own) } : fields;
  },
  ant(tensors, own) {
    const names = ["row_offsets", "anchor_ids", "weights", "anchors"];
    const fields = Object.assign({}, ...names.map((name) => pointer(name, tensors[name], own)));
    const type = (name) => TYPES.indexOf(tensors[name].dtype);
    return { ...fields, anchor_id_type: type("anchor_ids"), weight_type: type("weights"), anchor_type: type("anchors") };
  },
  tt(tensors, own) {
    const fields = { core_type: TYPES.indexOf(tensors.core_0.dtype) };
    for (let k = 0; tensors[`core_${k}`]; ++k) {
      const { bytes, shape } = tensors[`core_${k}`];
      fields[`data_${k}`] = own(tensors[`core_${k}`]);
      fields[`bytes_${k}`] = bytes.length;
      for (const [axis, name] of ["rows", "rank_in", "columns", "rank_out"].entries()) {
        fields[`${name}_${k}`] = shape[axis];
      }
    }
    return fields;
  },
};

function pointer(name, tensor, own) {
  return { [name]: own(tensor), [`${name}_bytes`]: tensor.bytes.length };
}
