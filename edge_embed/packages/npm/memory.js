// Memory of the kernels: ranges that are free, by address, and the ranges in use. Memory of WebAssembly grows and never
// shrinks, so freed ranges are joined and used again.

import { EdgeEmbedError } from "./errors.js";

const ALIGNMENT = 64; // a cache line
const PAGE = 65536;
const MOST = 2 ** 32 - PAGE;

export class Memory {
  #memory;
  #free; // [start, end] of each free range, sorted
  #used = new Map(); // end by start

  constructor(memory, base) {
    this.#memory = memory;
    this.#free = [[roundUp(base), memory.buffer.byteLength]];
  }

  // Bytes in use, for tests and for whoever wants to know.
  get used() {
    let total = 0;
    for (const [start, end] of this.#used) total += end - start;
    return total;
  }

  // A view, which is valid until the next allocation.
  bytes(address, length) {
    return new Uint8Array(this.#memory.buffer, address, length);
  }

  view(address, length) {
    return new DataView(this.#memory.buffer, address, length);
  }

  allocate(length) {
    const size = roundUp(Math.max(length, 1));
    let index = this.#free.findIndex(([start, end]) => end - start >= size);
    if (index < 0) {
      this.#grow(size, length);
      index = this.#free.length - 1;
    }
    const range = this.#free[index];
    const start = range[0];
    range[0] += size;
    if (range[0] === range[1]) this.#free.splice(index, 1);
    this.#used.set(start, start + size);
    return start;
  }

  release(start) {
    const end = this.#used.get(start);
    if (end === undefined) return;
    this.#used.delete(start);
    let index = this.#free.findIndex(([next]) => next > start);
    if (index < 0) index = this.#free.length;
    this.#free.splice(index, 0, [start, end]);
    for (const left of [index, index - 1]) {
      const [before, after] = [this.#free[left], this.#free[left + 1]];
      if (before && after && before[1] === after[0]) this.#free.splice(left, 2, [before[0], after[1]]);
    }
  }

  // Calls use(allocate), and releases what it allocated.
  during(use) {
    const addresses = [];
    try {
      return use((length) => {
        const address = this.allocate(length);
        addresses.push(address);
        return address;
      });
    } finally {
      for (const address of addresses) this.release(address);
    }
  }

  // Lengthens the last range, or adds one, so that it has `size` bytes.
  #grow(size, length) {
    const end = this.#memory.buffer.byteLength;
    const last = this.#free.at(-1);
    const begin = last && last[1] === end ? last[0] : end;
    try {
      if (begin + size > MOST) throw new RangeError("32-bit addresses");
      this.#memory.grow(Math.ceil((begin + size - end) / PAGE));
    } catch {
      throw new EdgeEmbedError(
        `memory: got ${end} bytes of WebAssembly memory, expected ${length} more: free tables, or pass fewer values at once`,
      );
    }
    if (begin < end) last[1] = this.#memory.buffer.byteLength;
    else this.#free.push([end, this.#memory.buffer.byteLength]);
  }
}

function roundUp(size) {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}
