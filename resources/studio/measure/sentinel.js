/** A fixed kernel, timed again and again: what its rate loses, the machine or the browser took. */
import { median } from "../../engine/quantile.js";
import { prime, timeBatch } from "../../engine/tuning/timing.js";

/** @import { Clock } from "../../engine/tuning/timing.js" */

const SAMPLES = 5;
const SAMPLE_MS = 2;
const WARMUP = { warmup_ms: 30, pairs: 0, min_sample_ms: SAMPLE_MS, min_quanta: 0, early_stop_ratio: 0, max_ms: 0 };
/** Iterations of one call: a function gets its fast code only from one call to the next. */
const CALL = 4096;

export class Sentinel {
  /** @type {{bytes: Uint8Array, run: (begin: number, end: number) => void, calls: number} | null} */ #known = null;

  /** @param {Clock} now */
  constructor(now) {
    this.now = now;
  }

  /**
   * About 10 ms, 40 the first time.
   * @param {Uint8Array<ArrayBuffer>} bytes the peak kernel: `run(begin, end)`
   * @param {number} flops_per_iteration
   * @returns {Promise<{gflops: number, throughput: number}>} the median of some samples, and of all
   *   the time that passed: what another program took of it is in no short sample's median
   */
  async rate(bytes, flops_per_iteration) {
    const known = await this.#warm(bytes);
    const call = () => known.run(0, CALL);
    const sample = () => {
      // A call that something interrupted seemed long: with too few of them the clock sees nothing.
      for (;;) {
        const ms = timeBatch(call, known.calls, this.now);
        if (ms >= SAMPLE_MS / 2) return ms / known.calls;
        known.calls *= 4;
      }
    };
    const samples = Array.from({ length: SAMPLES }, sample);
    const rate = (/** @type {number} */ ms) => (CALL * flops_per_iteration) / ms / 1e6;
    return { gflops: rate(median(samples)), throughput: rate(samples.reduce((a, b) => a + b) / samples.length) };
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  async #warm(bytes) {
    const known = this.#known;
    if (known && known.bytes.length === bytes.length && known.bytes.every((b, i) => b === bytes[i])) return known;
    const { instance } = await WebAssembly.instantiate(bytes, { env: { memory: new WebAssembly.Memory({ initial: 1 }) } });
    const run = /** @type {(begin: number, end: number) => void} */ (instance.exports.run);
    prime((iterations) => run(0, iterations), WARMUP, this.now);
    let calls = 1;
    while (timeBatch(() => run(0, CALL), calls, this.now) < SAMPLE_MS) calls *= 2;
    return (this.#known = { bytes: bytes.slice(), run, calls });
  }
}
