/** How fast kernels are on the blocks that a model asks for, on a memory of their own. */
import { walk } from "./images.js";

/** @import { Block } from "./recorder.js" */
/** @import { Kernel, Product } from "./images.js" */

const PANEL = 16;
const FIRST = 64;
/** Bytes of a memory with room for blocks of up to 256 rows of 4096 columns. */
export const RATE_PAGES = 320;

/** @param {Block} block @returns {Product | null} null for one that finds no room */
function placed({ m, k, n, lda, ldc }) {
  const b = (FIRST + m * lda + PANEL) & ~(PANEL - 1);
  const c = b + Math.ceil(n / PANEL) * PANEL * k;
  return 4 * (c + m * ldc) < RATE_PAGES * 65536 ? { m, k, n, lda, ldc, a: FIRST, b, c, alpha: 1 } : null;
}

/**
 * @param {Record<string, Kernel>} kernels of one contender, by name
 * @param {Block[]} blocks
 * @param {number} sampleMs of each block
 * @param {() => number} now
 * @returns {number} ms of the model's products
 */
export function rate(kernels, blocks, sampleMs, now) {
  let total = 0;
  for (const block of blocks) {
    const product = placed(block);
    if (!product) continue;
    const start = now();
    let calls = 0;
    let spent = 0;
    for (; spent < sampleMs; spent = now() - start, calls++) walk(kernels[block.kernel], product);
    total += ((spent / calls) * block.flops) / (2 * block.m * block.k * block.n);
  }
  return total;
}
