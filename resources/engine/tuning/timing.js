/** Timing of kernels (docs/protocol.md, design section 6). The clock is a parameter. */
import { median } from "../quantile.js";

/** @typedef {() => number} Clock milliseconds */
/**
 * nnjit_studio.records.MeasurePolicy as JSON.
 * @typedef {object} MeasurePolicy
 * @property {number} pairs
 * @property {number} min_sample_ms
 * @property {number} min_quanta
 * @property {number} warmup_ms
 * @property {number} early_stop_ratio
 * @property {number} max_ms
 * @property {boolean} [digest] whether the reply says what the outputs were, bit by bit
 */
/**
 * When a kernel was first run, and how often since then.
 * @typedef {{start: number, calls: number}} Begun
 */
/**
 * A kernel as it is timed; `batch` is 0 until it was warmed up, a measurement fills it in.
 * @typedef {{run: () => void, batch: number, begun?: Begun}} Timed
 */
/** @typedef {{samples_ms: number[], incumbent_ms: number[], batch: number, stopped_early: boolean}} Samples */

const STABLE = 0.05;
const MIN_WARM_CALLS = 4;
/** A part of a kernel that is timed before its code is fast. */
const PART_MS = 0.2;
/** Code of the optimising compiler takes less than this share of what the baseline's took. */
const TIERED_UP = 0.6;

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
 * Runs parts of a kernel until the engine's fast code is there. V8 compiles it in
 * the background and takes it from one call to the next, so that short calls get
 * there in milliseconds, where whole runs of the baseline's code cost four times
 * theirs. Lasts a third of `warmup_ms` once the parts have become faster, all of
 * it when they have not (a kernel that waits for memory, code that was fast at once).
 *
 * @param {(iterations: number) => void} part runs so many iterations of the outermost loop
 * @param {MeasurePolicy} policy
 * @param {Clock} now
 * @returns {Begun}
 */
export function prime(part, policy, now) {
  const start = now();
  let calls = 0;
  let iterations = 1;
  let baseline = Infinity;
  for (;;) {
    const before = now();
    part(iterations);
    const end = now();
    const each = (end - before) / iterations;
    calls++;
    const enough = calls >= MIN_WARM_CALLS && end - start >= policy.warmup_ms / 3;
    if ((enough && each < TIERED_UP * baseline) || end - start >= policy.warmup_ms) return { start, calls };
    if (calls <= 2) baseline = Math.min(baseline, each);
    if (end - before < PART_MS) iterations *= 2;
  }
}

/**
 * Runs until two batches in a row agree, but at least for a third of
 * `warmup_ms`: V8 compiles the fast tier in the background, and the baseline
 * tier before it is just as steady. The fastest batch says how many runs make a
 * sample: on a busy machine others take the core in the middle of a batch, and
 * who has shorter samples than his rival meets that less often.
 *
 * @param {() => void} run
 * @param {MeasurePolicy} policy
 * @param {number} target_ms of one sample
 * @param {Clock} now
 * @param {Begun} [begun] what ran before, and counts as warming up
 * @returns {number} how many runs make a sample of at least `target_ms`
 */
export function warmUp(run, policy, target_ms, now, begun = { start: now(), calls: 0 }) {
  const { start } = begun;
  let batch = 1;
  let { calls } = begun;
  let before = Infinity;
  let fastest = Infinity;
  for (;;) {
    const ms = timeBatch(run, batch, now);
    calls += batch;
    const each = ms / batch;
    const spent = now() - start;
    const long_enough = ms >= target_ms / 4;
    const second = long_enough && before < Infinity;
    const stable = second && Math.abs(each - before) <= STABLE * before;
    const over = second && spent >= policy.warmup_ms;
    const warm = calls >= MIN_WARM_CALLS && ((stable && spent >= policy.warmup_ms / 3) || over);
    if (long_enough) fastest = Math.min(fastest, each);
    if ((warm && ms > 0) || spent >= policy.max_ms / 4) return runsFor(target_ms, Math.min(fastest, each), batch);
    if (long_enough) before = each;
    else batch *= 2;
  }
}

/**
 * @param {number} target_ms
 * @param {number} each ms of one run
 * @param {number} batch of which `each` is known: where the clock made no step meanwhile, twice as many
 */
const runsFor = (target_ms, each, batch) => Math.max(1, each > 0 ? Math.ceil(target_ms / each) : 2 * batch);

/**
 * Interleaved samples, in the order C I I C C I I C ...: a slow drift of the
 * machine hits challenger and incumbent alike. What is warm stays warm.
 *
 * @param {Timed} challenger
 * @param {Timed | null} incumbent
 * @param {MeasurePolicy} policy
 * @param {{now: Clock, quantum_ms: number}} clock
 * @returns {Samples} ms of one run each; `batch` is the challenger's
 */
export function takeSamples(challenger, incumbent, policy, { now, quantum_ms }) {
  const start = now();
  const target_ms = Math.max(policy.min_sample_ms, policy.min_quanta * quantum_ms);
  for (const timed of incumbent ? [challenger, incumbent] : [challenger])
    timed.batch ||= warmUp(timed.run, policy, target_ms, now, timed.begun);
  /** @type {number[]} */
  const samples_ms = [];
  /** @type {number[]} */
  const incumbent_ms = [];
  const sample = (/** @type {Timed} */ timed) => {
    for (;;) {
      const ms = timeBatch(timed.run, timed.batch, now);
      if (ms >= target_ms / 2 || (ms > 0 && now() - start >= policy.max_ms)) return ms / timed.batch;
      timed.batch = Math.max(timed.batch + 1, runsFor(target_ms, ms / timed.batch, timed.batch)); // too short for a sample
    }
  };
  // After a rest of the page the first runs are slow: they would all be the challenger's.
  if (incumbent) timeBatch(incumbent.run, Math.ceil(incumbent.batch / 2), now);
  const takeC = () => void samples_ms.push(sample(challenger));
  const takeI = () => incumbent && void incumbent_ms.push(sample(incumbent));
  let stopped_early = false;
  for (let pair = 0; pair < policy.pairs && !stopped_early; pair++) {
    if (pair && now() - start >= policy.max_ms) break;
    for (const take of pair % 2 ? [takeI, takeC] : [takeC, takeI]) take();
    stopped_early =
      samples_ms.length === 2 &&
      incumbent !== null &&
      Math.min(...samples_ms) > policy.early_stop_ratio * median(incumbent_ms);
  }
  return { samples_ms, incumbent_ms, batch: challenger.batch, stopped_early };
}
