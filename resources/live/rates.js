/** How fast kernels are on the blocks that a model asks for, on a memory of their own. */
import { walk } from "./images.js";

/** @import { Block } from "./recorder.js" */
/** @import { Kernel, Product } from "./images.js" */

const PANEL = 16;
const FIRST = 64;

/** @param {Block} block @param {number} bytes @returns {Product | null} null for one that finds no room */
function placed({ m, k, n, lda, ldc }, bytes) {
  const b = (FIRST + m * lda + PANEL) & ~(PANEL - 1);
  const c = b + Math.ceil(n / PANEL) * PANEL * k;
  return 4 * (c + m * ldc) < bytes ? { m, k, n, lda, ldc, a: FIRST, b, c, alpha: 1 } : null;
}

/**
 * The best rates of one contender: a moment that another program takes makes a sample longer, and
 * nothing makes it shorter.
 */
export class Rate {
  /** @type {Map<string, number>} ms of one walk over a block */
  #best = new Map();

  /** @param {Record<string, Kernel>} kernels by name @param {number} bytes of their memory */
  constructor(kernels, bytes) {
    this.kernels = kernels;
    this.bytes = bytes;
  }

  /**
   * @param {Block[]} blocks
   * @param {number} sampleMs of each block
   * @param {() => number} now
   * @returns {{ms: number, best: number}} ms of the model's products, at the rates of this look and
   *   at the best ones until now
   */
  look(blocks, sampleMs, now) {
    const total = { ms: 0, best: 0 };
    for (const block of blocks) {
      const product = placed(block, this.bytes);
      if (!product) continue;
      const start = now();
      let calls = 0;
      let spent = 0;
      for (; spent < sampleMs; spent = now() - start, calls++) walk(this.kernels[block.kernel], product);
      const key = JSON.stringify(block);
      const best = Math.min(spent / calls, this.#best.get(key) ?? Infinity);
      this.#best.set(key, best);
      const walks = block.flops / (2 * block.m * block.k * block.n);
      total.ms += (spent / calls) * walks;
      total.best += best * walks;
    }
    return total;
  }
}
