/**
 * Weights in column panels: a K x N matrix in panels of width w is `ceil(N/w)`
 * panels, each K rows of w columns, the last one padded with zeros.
 *
 * Works on 32-bit words, not on floats: a float's NaN bits may change on the
 * way through JavaScript.
 */

/**
 * @param {number} K
 * @param {number} N
 * @param {number} width 0 is row-major
 */
export function layoutBytes(K, N, width) {
  return (width ? Math.ceil(N / width) * width : N) * K * 4;
}

/**
 * @param {Uint32Array} rows row-major, K x N
 * @param {Uint32Array} panels
 * @param {number} K
 * @param {number} N
 * @param {number} width
 */
export function pack(rows, panels, K, N, width) {
  let to = 0;
  for (let n0 = 0; n0 < N; n0 += width) {
    const columns = Math.min(width, N - n0);
    for (let k = 0; k < K; k++) {
      const from = k * N + n0;
      for (let n = 0; n < columns; n++) panels[to + n] = rows[from + n];
      for (let n = columns; n < width; n++) panels[to + n] = 0;
      to += width;
    }
  }
}

/**
 * Inverse of `pack`; the padding is dropped.
 * @param {Uint32Array} panels
 * @param {Uint32Array} rows
 * @param {number} K
 * @param {number} N
 * @param {number} width
 */
export function unpack(panels, rows, K, N, width) {
  let from = 0;
  for (let n0 = 0; n0 < N; n0 += width) {
    const columns = Math.min(width, N - n0);
    for (let k = 0; k < K; k++) {
      const to = k * N + n0;
      for (let n = 0; n < columns; n++) rows[to + n] = panels[from + n];
      from += width;
    }
  }
}

/**
 * Changes the layout of a weight in place, by way of a row-major copy in scratch.
 *
 * @param {ArrayBufferLike} memory
 * @param {number} address of the weight; room for the wider of both layouts
 * @param {number} scratch address of K * N * 4 free bytes
 * @param {number} K
 * @param {number} N
 * @param {number} from panel width now, 0 is row-major
 * @param {number} to panel width wanted, 0 is row-major
 */
export function relayout(memory, address, scratch, K, N, from, to) {
  if (from === to) return;
  const rows = new Uint32Array(memory, scratch, K * N);
  const before = new Uint32Array(memory, address, layoutBytes(K, N, from) / 4);
  const after = new Uint32Array(memory, address, layoutBytes(K, N, to) / 4);
  if (from) unpack(before, rows, K, N, from);
  else rows.set(before);
  if (to) pack(rows, after, K, N, to);
  else after.set(rows);
}
