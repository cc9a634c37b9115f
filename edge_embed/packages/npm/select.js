// The k largest of logits plus bias, largest first, equal ones by lowest id. NaN counts as the largest.

export function selectLargest(logits, rows, k, bias) {
  const states = logits.length / rows;
  const values = new Float32Array(states * k);
  const ids = new BigInt64Array(states * k);
  for (let state = 0; state < states; ++state) {
    const row = logits.slice(state * rows, (state + 1) * rows);
    if (bias) row.forEach((logit, id) => (row[id] = logit + bias[id]));
    const order = Int32Array.from(row.keys()).sort((a, b) => before(row[a], row[b]) || a - b);
    for (let place = 0; place < k; ++place) {
      values[state * k + place] = row[order[place]];
      ids[state * k + place] = BigInt(order[place]);
    }
  }
  return { values, ids };
}

function before(a, b) {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(b)) - Number(Number.isNaN(a));
  return b - a || 0; // two infinities
}
