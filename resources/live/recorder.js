/** Which products a model really asks for: every call while it runs, in all threads. */
import { CURSOR, MOST_RECORDS, RECORDING, RECORD_BYTES, RING } from "./layout.js";

/** @import { Control } from "./runtime.js" */
/**
 * Calls of one kernel with equal sizes; `m` is the most rows of one of them: a block's.
 * @typedef {{kernel: string, m: number, k: number, n: number, lda: number, ldc: number, calls: number, flops: number}} Block
 */

/**
 * @param {Control} control
 * @param {() => Promise<unknown>} run one inference
 * @returns {Promise<{blocks: Block[], calls: number}>} most work first; `calls` counts those too that found no room
 */
export async function record({ memory, names }, run) {
  const words = new Int32Array(memory.buffer);
  Atomics.store(words, CURSOR / 4, 0);
  Atomics.store(words, RECORDING / 4, 1);
  try {
    await run();
  } finally {
    Atomics.store(words, RECORDING / 4, 0);
  }
  const calls = Atomics.load(words, CURSOR / 4);
  return { blocks: blocksOf(words, Math.min(calls, MOST_RECORDS), names), calls };
}

/** @param {Int32Array} words @param {number} count @param {string[]} names @returns {Block[]} */
function blocksOf(words, count, names) {
  /** @type {Map<string, Block>} */
  const blocks = new Map();
  for (let at = RING / 4, end = at + (count * RECORD_BYTES) / 4; at < end; at += RECORD_BYTES / 4) {
    const [k, m, n, lda, ldc, kernel, rows] = words.subarray(at, at + 7);
    const key = [kernel, k, n, lda, ldc].join();
    const block = blocks.get(key) ?? { kernel: names[kernel], m, k, n, lda, ldc, calls: 0, flops: 0 };
    block.m = Math.max(block.m, m);
    block.calls++;
    block.flops += 2 * rows * k * n;
    blocks.set(key, block);
  }
  return [...blocks.values()].sort((a, b) => b.flops - a.flops);
}
