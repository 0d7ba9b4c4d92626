/** Random calls of the contract of MLAS' kernels; sizes, places and strides count floats. */

/** @typedef {{m: number, k: number, n: number, lda: number, ldc: number, a: number, b: number, c: number, alpha: number}} Product */
/** @typedef {(a: number, b: number, c: number, k: number, m: number, n: number, lda: number, ldc: number, alpha: number) => number} Kernel */

const PANEL = 16;
const SPECIAL = [NaN, Infinity, -Infinity, 1e-40, -0];

/** Marsaglia's xorshift: the same cases in every engine. @param {number} seed @returns {() => number} in [0, 1) */
export function randomBy(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/**
 * Fills the memory, and says where a product lies in it.
 * @param {Float32Array} image
 * @param {() => number} random
 * @returns {Product}
 */
export function randomProduct(image, random) {
  const from = (/** @type {number} */ low, /** @type {number} */ high) => low + Math.floor(random() * (high - low + 1));
  for (let i = 0; i < image.length; i++) image[i] = random() * 2 - 1;
  const m = from(1, 16);
  const n = from(1, random() < 0.5 ? 40 : 96);
  const k = random() < 0.2 ? from(0, 3) : from(1, 64);
  const [lda, ldc] = [k + from(0, 9), n + from(0, 9)];
  const a = 64 + from(0, 15);
  const b = (a + m * lda + 64) & ~15;
  const c = b + Math.ceil(n / PANEL) * PANEL * k + from(1, 20);
  const alpha = random() < 0.5 ? 1 : random() * 3 - 1.5;
  if (k && random() < 0.25) image[a + from(0, m * lda - 1)] = SPECIAL[from(0, SPECIAL.length - 1)];
  return { m, k, n, lda, ldc, a, b, c, alpha };
}

/**
 * Calls a kernel as its caller does, rows after rows.
 * @param {Kernel} kernel
 * @param {Product} product
 */
export function walk(kernel, { m, k, n, lda, ldc, a, b, c, alpha }) {
  for (let row = 0; row < m; ) {
    const rows = kernel(4 * (a + row * lda), 4 * b, 4 * (c + row * ldc), k, m - row, n, lda, ldc, alpha);
    if (!(rows >= 1 && rows <= m - row)) throw new Error(`A kernel handled ${rows} of ${m - row} rows.`);
    row += rows;
  }
}

/**
 * How far rounding may carry one float of the memory from the original's: infinitely far nowhere,
 * not at all outside of C.
 * @param {Float32Array} image before the call
 * @param {Product} product
 * @param {boolean} adds
 * @param {number} at
 */
export function bound(image, { m, k, n, lda, ldc, a, b, c, alpha }, adds, at) {
  const [row, column] = [Math.floor((at - c) / ldc), (at - c) % ldc];
  if (at < c || row >= m || column >= n) return 0;
  let sum = adds ? Math.abs(image[at]) : 0;
  const panel = b + Math.floor(column / PANEL) * PANEL * k + (column % PANEL);
  for (let i = 0; i < k; i++) sum += Math.abs(alpha * image[a + row * lda + i] * image[panel + PANEL * i]);
  return (k + 4) * 2 ** -24 * sum;
}
