/** What the target is and how fast one thread can multiply and add. */
import { hasTier } from "../../engine/features.js";
import { timeBatch, timerQuantum } from "../../engine/tuning/timing.js";

// many short samples: the best of them is the one that nothing disturbed
const SAMPLE_MS = 4;
const SAMPLES = 25;

/**
 * @param {{tier: string, flops_per_iteration: number}[]} peak
 * @param {Uint8Array<ArrayBuffer>[]} modules one for each entry of `peak`
 */
export async function probe(peak, modules) {
  const now = () => performance.now();
  /** @type {Record<string, number>} */
  const peak_gflops = {};
  for (const [i, { tier, flops_per_iteration }] of peak.entries())
    if (WebAssembly.validate(modules[i])) peak_gflops[tier] = await peakRate(modules[i], flops_per_iteration, now);
  return {
    cross_origin_isolated: globalThis.crossOriginIsolated,
    simd: hasTier("simd128"),
    relaxed_simd: hasTier("relaxed-simd"),
    threads: globalThis.crossOriginIsolated && typeof SharedArrayBuffer === "function",
    cores: navigator.hardwareConcurrency,
    timer_quantum_ms: timerQuantum(now),
    user_agent: navigator.userAgent,
    peak_gflops,
  };
}

/**
 * Best of some samples: the peak is what the machine can do undisturbed.
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} flops_per_iteration
 * @param {() => number} now
 * @returns {Promise<number>} GFLOP/s
 */
export async function peakRate(bytes, flops_per_iteration, now) {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const { instance } = await WebAssembly.instantiate(bytes, { env: { memory } });
  const run = /** @type {(begin: number, end: number) => void} */ (instance.exports.run);
  // Short calls: a function moves to the optimising tier only from one call to the next.
  let iterations = 1024;
  let calls = 1;
  let best_ms = Infinity;
  const call = () => run(0, iterations);
  while (timeBatch(call, 1, now) < 0.5 && iterations < 2 ** 30) iterations *= 2;
  while (timeBatch(call, calls, now) < SAMPLE_MS) calls *= 2;
  for (let i = 0; i < SAMPLES; i++) {
    const ms = timeBatch(call, calls, now);
    best_ms = Math.min(best_ms, ms / calls);
    if (ms >= SAMPLE_MS / 2) continue;
    // A pause of the machine was taken for the calls, which are too short to be timed.
    [calls, i, best_ms] = [calls * 2, -1, Infinity];
  }
  return (iterations * flops_per_iteration) / best_ms / 1e6;
}
