/** The steps of a plan: bound to kernels and memory, run, timed one by one, and tapped. */
import { appendRows } from "./append.js";
import { EngineError } from "./errors.js";
import { stepsOf } from "./plan.js";
import { quantile } from "./quantile.js";

/** @import { Bound, Call, Inference, Loaded, Loop, Loops, Plan, PlanStep, Registered, Tap } from "../types/engine.js" */
/** @import { Team } from "./team.js" */

const MAX_REPEATS = 1 << 16;

/**
 * The steps of a plan, up to `return`; null while a kernel is missing.
 * @param {Loaded} loaded
 * @param {Map<string, Registered>} kernels by workload
 * @param {Team | null} threads
 * @returns {Call[] | null}
 */
export function bindCalls(loaded, kernels, threads) {
  const { plan, memory, addresses } = loaded;
  /** @type {Call[]} */
  const calls = [];
  /** @type {{begin: number, step: PlanStep, bound: Bound[]} | null} of the loop that was begun */
  let inside = null;
  for (const step of stepsOf(plan)) {
    const { op, append, workload, args, scalars = [], extent: open } = step;
    const pointers = args.map((b) => addresses[b]);
    if (op === "loop") {
      inside = { begin: calls.length, step, bound: [] };
      continue;
    }
    if (op === "end" && inside) {
      calls.push(bindBody(loaded, inside, calls.splice(inside.begin)));
      inside = null;
      continue;
    }
    if (append) {
      const [from, to, at] = pointers;
      const run = () => appendRows(memory, append, from, to, at);
      calls.push({ kernel: null, choice: null, solo: run, team: run });
      continue;
    }
    const kernel = kernels.get(workload);
    if (!kernel) return null;
    const { run, id, header } = kernel;
    const extent = open ?? header.parallel_extent;
    const given = scalars.length ? [...pointers, ...scalars] : pointers;
    const whole = [...given, 0, extent];
    inside?.bound.push({ args, pointers: [given, whole] });
    calls.push({
      kernel,
      choice: open === undefined ? kernel.choice : (threads && extent > 1 && loaded.choices?.of(kernel, extent)) || null,
      solo: () => run.apply(undefined, whole), // spreading would make an array each time
      team: () => threads?.run(id, run, given, extent),
    });
  }
  return calls;
}

/**
 * A loop as one step without a kernel.
 * @param {Loaded} loaded
 * @param {{step: PlanStep, bound: Bound[]}} inside
 * @param {Call[]} calls of the body
 * @returns {Call}
 */
function bindBody(loaded, { step, bound }, calls) {
  const body = () => {
    for (let i = 0; i < calls.length; i++) execute(calls[i]);
  };
  const { bindLoop } = /** @type {Loops} */ (loaded.loops);
  const run = bindLoop(/** @type {Loop} */ (step.loop), loaded, body, bound, step.node);
  return { kernel: null, choice: null, solo: run, team: run };
}

/** @param {Call} call */
export function execute({ choice, solo, team }) {
  if (choice) choice.run(solo, team);
  else solo();
}

/**
 * Which steps may run again at once with the same result: kernels whose arguments in the
 * arena are apart, so that none of them writes over what it reads.
 * @param {Plan} plan
 * @returns {boolean[]} one for each step before `return`; a loop is one
 */
export function repeatable(plan) {
  return outside(stepsOf(plan)).map(({ op, args }) => {
    const ranges = [...new Set(args)].map((a) => plan.buffers[a]).filter((b) => b.region !== "weight");
    ranges.sort((a, b) => (a.region === b.region ? a.offset - b.offset : a.region < b.region ? -1 : 1));
    const apart = ranges.every((b, i) => !i || ranges[i - 1].region !== b.region || ranges[i - 1].offset + ranges[i - 1].nbytes <= b.offset);
    return op === "call" && apart;
  });
}

/** The steps of no loop's body; a loop is the step that begins it. @param {PlanStep[]} steps */
function outside(steps) {
  let within = false;
  return steps.filter(({ op }) => {
    const counts = !within && op !== "end";
    if (op === "loop" || op === "end") within = op === "loop";
    return counts;
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

/** @param {number} runs @param {Tap[]} taps @param {Plan} plan @param {number} steps that run */
export function checkRuns(runs, taps, { buffers }, steps) {
  if (!(Number.isInteger(runs) && runs >= 1)) throw new EngineError(`The number of runs must be at least 1, not ${runs}.`);
  for (const { step, buffer, offset, nbytes } of taps) {
    const inside = Number.isInteger(step) && step >= 0 && step < steps && buffer in buffers;
    if (!inside || !(offset >= 0 && nbytes >= 0 && offset + nbytes <= buffers[buffer].nbytes))
      throw new EngineError(`There is nothing to copy at step ${step}, buffer ${buffer}, bytes ${offset} to ${offset + nbytes}.`);
  }
}

/** @returns {Inference} */
export const newInference = () => ({ outputs: [], runs_ms: [], steps_ms: [], steps_iqr_ms: [], steps_threads: [], steps_chunks: [], taps: [] });

/** @param {Inference} result gets what a profile found of a call @param {number[]} samples ms @param {number} threads @param {number[]} chunks */
export function addStep(result, samples, threads, chunks) {
  result.steps_ms.push(quantile(samples, 0.5));
  result.steps_iqr_ms.push(quantile(samples, 0.75) - quantile(samples, 0.25));
  result.steps_threads.push(threads);
  result.steps_chunks.push(chunks);
}
