// Bags of rows that the kernels do not know, in float64 and rounded once.

export function reduceRows({ rows, columns, ids, starts, factors, mode, padding }) {
  const bags = new Float32Array((starts.length - 1) * columns);
  for (let bag = 0; bag + 1 < starts.length; ++bag) {
    const [begin, end] = [Number(starts[bag]), Number(starts[bag + 1])];
    const kept = [];
    for (let i = begin; i < end; ++i) if (Number(ids[i]) !== padding) kept.push(i);
    if (!kept.length) continue;
    for (let column = 0; column < columns; ++column) {
      let result = mode === "max" ? -Infinity : 0;
      for (const i of kept) {
        const number = rows[i * columns + column];
        result = mode === "max" ? Math.max(result, number) : result + number * (factors ? factors[i] : 1);
      }
      bags[bag * columns + column] = mode === "mean" ? result / kept.length : result;
    }
  }
  return bags;
}
