/** The steps of a run, one by one: what each takes, and copies of what it wrote. */
import { EngineError } from "./errors.js";

/** @typedef {import("../types/engine.js").Plan} Plan */
/** @typedef {import("../types/engine.js").Tap} Tap */

const MAX_REPEATS = 1 << 16;

/**
 * Which steps may run again at once with the same result: kernels whose arguments in the
 * arena are apart, so that none of them writes over what it reads.
 * @param {Plan} plan
 * @returns {boolean[]} one for each step before `return`
 */
export function repeatable({ steps, buffers }) {
  const end = steps.findIndex((s) => s.op === "return");
  return steps.slice(0, end < 0 ? steps.length : end).map(({ op, args }) => {
    const ranges = [...new Set(args)].map((a) => buffers[a]).filter((b) => b.region !== "weight");
    ranges.sort((a, b) => (a.region === b.region ? a.offset - b.offset : a.region < b.region ? -1 : 1));
    const apart = ranges.every((b, i) => !i || ranges[i - 1].region !== b.region || ranges[i - 1].offset + ranges[i - 1].nbytes <= b.offset);
    return op === "call" && apart;
  });
}

/**
 * Runs all steps and times each. One that is shorter than `least_ms`, which the clock
 * hardly sees, is repeated until the batch is longer, where it may be.
 * @param {(() => void)[]} steps
 * @param {boolean[]} repeats
 * @param {number} least_ms
 * @param {(step: number) => void} [after] each step, when its clock has stopped
 * @returns {number[]} ms of each step
 */
export function timeSteps(steps, repeats, least_ms, after = () => {}, now = () => performance.now()) {
  return steps.map((run, i) => {
    const start = now();
    run();
    let end = now();
    let count = 1;
    for (; repeats[i] && end - start < least_ms && count < MAX_REPEATS; count *= 2) {
      for (let more = count; more > 0; more--) run();
      end = now();
    }
    after(i);
    return (end - start) / count;
  });
}

/**
 * @param {number[]} values at least one
 * @param {number} share 0.5 for the median
 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

/**
 * Runs all steps and copies what the taps name.
 * @param {(() => void)[]} steps
 * @param {Tap[]} taps
 * @param {(tap: Tap) => Uint8Array} copy
 * @returns {Uint8Array[]} in the order of the taps
 */
export function runTapped(steps, taps, copy) {
  /** @type {Uint8Array[]} */
  const copies = [];
  steps.forEach((run, step) => {
    run();
    taps.forEach((tap, i) => tap.step === step && (copies[i] = copy(tap)));
  });
  return copies;
}

/**
 * Refuses taps that lie outside their plan.
 * @param {Tap[]} taps
 * @param {Plan} plan
 * @param {number} steps that run
 */
export function checkTaps(taps, { buffers }, steps) {
  for (const { step, buffer, offset, nbytes } of taps) {
    const inside = Number.isInteger(step) && step >= 0 && step < steps && buffer in buffers;
    if (!inside || !(offset >= 0 && nbytes >= 0 && offset + nbytes <= buffers[buffer].nbytes))
      throw new EngineError(`There is nothing to copy at step ${step}, buffer ${buffer}, bytes ${offset} to ${offset + nbytes}.`);
  }
}
