/**
 * Weights in column panels: a K x N matrix in panels of width w is `ceil(N/w)`
 * panels, each K rows of w columns, the last one padded with zeros.
 *
 * A layout changes where the weight lies, a strip of columns at a time, so that
 * a vocabulary of 150 MB needs no second 150 MB. Works on words of 32 bits (of 16
 * for f16 weights), not on floats: a float's NaN bits may change on the way through
 * JavaScript.
 */

/** @typedef {Uint16Array | Uint32Array} Words */

export const WORD_BYTES = 4;

/** Words of a strip: what is copied outside of the weight. */
export const STRIP_WORDS = 1 << 22;

/**
 * @param {number} K
 * @param {number} N
 * @param {number} width 0 is row-major
 * @param {number} unit bytes of a word
 */
export function layoutBytes(K, N, width, unit = WORD_BYTES) {
  return (width ? Math.ceil(N / width) * width : N) * K * unit;
}

/**
 * @param {ArrayBufferLike} memory
 * @param {number} address
 * @param {number} nbytes
 * @param {number} unit bytes of a word
 * @returns {Words}
 */
export const wordsAt = (memory, address, nbytes, unit) =>
  unit === WORD_BYTES ? new Uint32Array(memory, address, nbytes / unit) : new Uint16Array(memory, address, nbytes / unit);

/** @param {Words} words @param {number} count */
const same = (words, count) => (words instanceof Uint32Array ? new Uint32Array(count) : new Uint16Array(count));

/**
 * Columns of a strip: whole panels, at least one.
 * @param {number} K
 * @param {number} width
 * @param {number} limit words
 */
function stripColumns(K, width, limit) {
  return Math.max(1, Math.floor(limit / (K * width))) * width;
}

/**
 * Row-major to panels, in place: the rows move to the end of the range, and
 * strip by strip leave it for the front while the rest closes up.
 *
 * @param {Words} words as long as the panels; the rows at its start
 * @param {number} K
 * @param {number} N
 * @param {number} width
 * @param {number} limit words of a strip
 */
export function pack(words, K, N, width, limit = STRIP_WORDS) {
  const size = words.length;
  const strip = same(words, Math.min(size, K * stripColumns(K, width, limit)));
  words.copyWithin(size - K * N, 0, K * N);
  let done = 0;
  for (let left = N; left > 0; ) {
    const columns = Math.min(left, strip.length / K);
    const start = size - K * left;
    let to = 0;
    for (let n0 = 0; n0 < columns; n0 += width) {
      const count = Math.min(width, columns - n0);
      for (let from = start + n0; from < size; from += left, to += width) {
        for (let n = 0; n < count; n++) strip[to + n] = words[from + n];
        for (let n = count; n < width; n++) strip[to + n] = 0;
      }
    }
    const rest = left - columns;
    for (let k = K - 1; k >= 0 && rest; k--) {
      const from = start + k * left + columns;
      words.copyWithin(size - (K - k) * rest, from, from + rest);
    }
    words.set(to < strip.length ? strip.subarray(0, to) : strip, done);
    done += to;
    left = rest;
  }
}

/**
 * Inverse of `pack`; the padding is dropped.
 * @param {Words} words as long as the panels
 * @param {number} K
 * @param {number} N
 * @param {number} width
 * @param {number} limit words of a strip
 */
export function unpack(words, K, N, width, limit = STRIP_WORDS) {
  const size = words.length;
  const wide = stripColumns(K, width, limit);
  const strip = same(words, Math.min(size, K * wide));
  let there = 0; // columns that are row-major again: the last ones, at the end of the range
  while (there < N) {
    const first = Math.floor((N - there - 1) / wide) * wide;
    const columns = N - there - first;
    const panels = words.subarray(first * K, first * K + Math.ceil(columns / width) * width * K);
    strip.set(panels);
    const now = there + columns;
    const start = size - K * now;
    for (let k = 0; k < K && there; k++) {
      const from = size - (K - k) * there;
      words.copyWithin(start + k * now + columns, from, from + there);
    }
    let from = 0;
    for (let n0 = 0; n0 < columns; n0 += width) {
      const count = Math.min(width, columns - n0);
      for (let to = start + n0; to < size; to += now, from += width)
        for (let n = 0; n < count; n++) words[to + n] = strip[from + n];
    }
    there = now;
  }
  words.copyWithin(0, size - K * N, size);
}

/**
 * Changes the layout of a weight in place.
 *
 * @param {ArrayBufferLike} memory
 * @param {number} address of the weight; room for the wider of both layouts
 * @param {number} K
 * @param {number} N
 * @param {number} from panel width now, 0 is row-major
 * @param {number} to panel width wanted, 0 is row-major
 * @param {number} unit bytes of a word
 */
export function relayout(memory, address, K, N, from, to, unit = WORD_BYTES) {
  if (from === to) return;
  if (from) unpack(wordsAt(memory, address, layoutBytes(K, N, from, unit), unit), K, N, from);
  if (to) pack(wordsAt(memory, address, layoutBytes(K, N, to, unit), unit), K, N, to);
}
