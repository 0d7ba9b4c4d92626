/** Proof by execution: a donor against the original, both on the same random memory. */
import { bound, randomBy, randomProduct, walk } from "./images.js";

/** @import { Kernel, Product } from "./images.js" */
/**
 * @typedef {object} Proof
 * @property {number} cases
 * @property {number} identical cases that left the whole memory bit for bit as the original did
 * @property {number} worst largest difference as a share of what rounding allows
 * @property {string} error why it was given up; empty when it was not
 */

const SEED = 777;
/** Floats of the memory that a proof reads and writes. */
export const PROOF_FLOATS = 1 << 14;

/** What kernels leave in memory, case by case. */
export class Cases {
  #floats;
  /** @type {{image: Float32Array, product: Product}[]} */
  #cases = [];

  /** @param {WebAssembly.Memory} memory @param {number} count @param {number} [seed] */
  constructor(memory, count, seed = SEED) {
    this.#floats = new Float32Array(memory.buffer, 0, PROOF_FLOATS);
    const random = randomBy(seed);
    while (this.#cases.length < count) {
      const image = new Float32Array(PROOF_FLOATS);
      const product = randomProduct(image, random);
      if (product.c + product.m * product.ldc < PROOF_FLOATS) this.#cases.push({ image, product });
    }
  }

  get count() {
    return this.#cases.length;
  }

  /** @param {Kernel} kernel @returns {Generator<Float32Array>} the memory after each case; read it before the next */
  *#after(kernel) {
    for (const { image, product } of this.#cases) {
      this.#floats.set(image);
      walk(kernel, product);
      yield this.#floats;
    }
  }

  /** @param {Kernel} original @returns {Float32Array[]} */
  expected(original) {
    return Array.from(this.#after(original), (floats) => floats.slice());
  }

  /**
   * @param {Kernel} donor
   * @param {Float32Array[]} expected
   * @param {boolean} adds whether the kernel adds to C
   * @returns {Proof}
   */
  prove(donor, expected, adds) {
    const proof = { cases: this.#cases.length, identical: 0, worst: 0, error: "" };
    try {
      let i = 0;
      for (const after of this.#after(donor)) {
        const { image, product } = this.#cases[i];
        const gap = farthest(expected[i++], after, (at) => bound(image, product, adds, at));
        proof.identical += gap === 0 ? 1 : 0;
        proof.worst = Math.max(proof.worst, gap);
      }
    } catch (e) {
      proof.error = String(e);
    }
    return proof;
  }
}

/**
 * @param {Float32Array} expected
 * @param {Float32Array} got
 * @param {(at: number) => number} allowed
 * @returns {number} 0 when all bits agree, those of NaN aside
 */
function farthest(expected, got, allowed) {
  let worst = 0;
  for (let i = 0; i < got.length; i++) {
    if (Object.is(expected[i], got[i])) continue;
    const gap = Math.abs(expected[i] - got[i]);
    // A zero of the other sign is a difference too, if the smallest.
    worst = Math.max(worst, Number.isFinite(gap) ? Math.max(gap / allowed(i), Number.MIN_VALUE) : Infinity);
  }
  return worst;
}
