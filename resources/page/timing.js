/** Timing of kernels (docs/protocol.md, design section 6). The clock is a parameter. */
import { median } from "./engine.js";

/** @typedef {() => number} Clock milliseconds */
/**
 * nnjit_studio.space.records.MeasurePolicy as JSON.
 * @typedef {object} MeasurePolicy
 * @property {number} pairs
 * @property {number} min_sample_ms
 * @property {number} min_quanta
 * @property {number} warmup_ms
 * @property {number} early_stop_ratio
 * @property {number} max_ms
 */
/**
 * `batch` is 0 until the kernel was warmed up; a measurement fills it in.
 * @typedef {{run: () => void, batch: number}} Incumbent
 */
/** @typedef {{samples_ms: number[], incumbent_ms: number[], batch: number, stopped_early: boolean}} Samples */

const STABLE = 0.05;
const MIN_WARM_CALLS = 4;

/**
 * The smallest step that the clock makes, by spinning.
 * @param {Clock} now
 * @param {number} [steps]
 * @returns {number} ms
 */
export function timerQuantum(now, steps = 20) {
  let quantum = Infinity;
  for (let i = 0; i < steps; i++) {
    const start = now();
    let t = start;
    while (t === start) t = now();
    quantum = Math.min(quantum, t - start);
  }
  return quantum;
}

/**
 * @param {() => void} run
 * @param {number} batch
 * @param {Clock} now
 * @returns {number} ms of the whole batch
 */
export function timeBatch(run, batch, now) {
  const start = now();
  for (let i = 0; i < batch; i++) run();
  return now() - start;
}

/**
 * Runs until two batches in a row agree, but at least for a third of
 * `warmup_ms`: V8 compiles the fast tier in the background, and the baseline
 * tier before it is just as steady.
 *
 * @param {() => void} run
 * @param {MeasurePolicy} policy
 * @param {number} target_ms of one sample
 * @param {Clock} now
 * @returns {number} how many runs make a sample of at least `target_ms`
 */
export function warmUp(run, policy, target_ms, now) {
  const start = now();
  let batch = 1;
  let calls = 0;
  let before = Infinity;
  for (;;) {
    const ms = timeBatch(run, batch, now);
    calls += batch;
    const each = ms / batch;
    const spent = now() - start;
    const long_enough = ms >= target_ms / 4;
    const stable = long_enough && Math.abs(each - before) <= STABLE * before;
    const warm = calls >= MIN_WARM_CALLS && ((stable && spent >= policy.warmup_ms / 3) || spent >= policy.warmup_ms);
    if ((warm && ms > 0) || spent >= policy.max_ms / 4) return Math.max(1, Math.ceil(target_ms / Math.max(each, 1e-6)));
    if (long_enough) before = each;
    else batch *= 2;
  }
}

/**
 * Interleaved samples, in the order C I I C C I I C ...: a slow drift of the
 * machine hits challenger and incumbent alike.
 *
 * @param {() => void} challenger
 * @param {Incumbent | null} incumbent
 * @param {MeasurePolicy} policy
 * @param {{now: Clock, quantum_ms: number}} clock
 * @returns {Samples} ms of one run each; `batch` is the challenger's
 */
export function takeSamples(challenger, incumbent, policy, { now, quantum_ms }) {
  const start = now();
  const target_ms = Math.max(policy.min_sample_ms, policy.min_quanta * quantum_ms);
  const batch = warmUp(challenger, policy, target_ms, now);
  if (incumbent) incumbent.batch ||= warmUp(incumbent.run, policy, target_ms, now);
  /** @type {number[]} */
  const samples_ms = [];
  /** @type {number[]} */
  const incumbent_ms = [];
  const takeC = () => void samples_ms.push(timeBatch(challenger, batch, now) / batch);
  const takeI = () =>
    incumbent && void incumbent_ms.push(timeBatch(incumbent.run, incumbent.batch, now) / incumbent.batch);
  let stopped_early = false;
  for (let pair = 0; pair < policy.pairs && !stopped_early; pair++) {
    if (pair && now() - start >= policy.max_ms) break;
    for (const take of pair % 2 ? [takeI, takeC] : [takeC, takeI]) take();
    stopped_early =
      samples_ms.length === 2 &&
      incumbent !== null &&
      Math.min(...samples_ms) > policy.early_stop_ratio * median(incumbent_ms);
  }
  return { samples_ms, incumbent_ms, batch, stopped_early };
}
