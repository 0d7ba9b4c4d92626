/**
 * Kernels tried in place: the loaded model with and without them, in turns, in its own memory.
 *
 * A model that is quick enough runs as a whole, with a clock around the steps whose kernels
 * differ. In a slower one, windows of the plan run: a step behind its real predecessors, on the
 * bytes that they found in a real run.
 */
import { EngineError } from "../engine/errors.js";
import { feedsOf } from "../engine/plan.js";
import { execute } from "../engine/steps.js";
import { rivalsOf } from "../engine/tuning/in_place.js";

/** @import { Call, Loaded, NewKernel, Tensor } from "../types/engine.js" */
/** @import { Engine } from "../engine/engine.js" */
/** @import { Rivals } from "../engine/tuning/in_place.js" */
/** @typedef {{pairs: number, min_sample_ms: number, min_quanta: number, warmup_ms: number, max_ms: number}} TrialPolicy */
/** @typedef {{run_ms: number, steps_ms: number}} Times of the whole model, 0 where only windows ran, and of the steps that differ */
/** @typedef {{first: number, step: number, saved: {address: number, bytes: Uint8Array}[]}} Window */
/**
 * `ms` and `runs_ms` of the kernels that are tried, `without` of those of now: a sample each, of one run.
 * @typedef {{mode: "runs" | "windows" | "models", rounds: number, ms: number[], without_ms: number[], runs_ms: number[], runs_without_ms: number[]}} Trial
 */

/** Steps that run before a timed one: what they leave in the caches is what it finds in the model. */
const PREDECESSORS = 3;
/** Of one kernel's uses, so many are timed in windows. */
const MOST_WINDOWS = 4;
/** Bytes that a window may have to put back before each of its runs. */
const MOST_SAVED_BYTES = 64 * 2 ** 20;

/**
 * @param {Engine} engine with a model and all its kernels
 * @param {Tensor[]} inputs
 * @param {NewKernel[]} kernels that differ from those of now
 * @param {TrialPolicy} policy
 * @param {{now: () => number, quantum_ms: number}} clock
 * @param {string} [plan] by name
 * @returns {Promise<Trial>}
 */
export async function trial(engine, inputs, kernels, policy, clock, plan) {
  const rivals = await rivalsOf(engine, kernels, plan);
  try {
    return takeTurns(new Ways(rivals, inputs, clock.now), rivals.use, policy, clock);
  } finally {
    rivals.use(false);
    rivals.drop();
  }
}

/**
 * @param {Ways} ways
 * @param {(others: boolean) => boolean} use
 * @param {TrialPolicy} policy
 * @param {{now: () => number, quantum_ms: number}} clock
 * @returns {Trial}
 */
function takeTurns(ways, use, { pairs, min_sample_ms, min_quanta, warmup_ms, max_ms }, { now, quantum_ms }) {
  use(false);
  ways.run(false);
  ways.save();
  for (const others of [true, false]) {
    use(others);
    const until = now() + warmup_ms;
    do ways.windows(others);
    while (now() < until);
  }
  const whole = ways.run(false);
  const sample_ms = max_ms / (2 * pairs);
  const least_ms = Math.max(min_sample_ms, min_quanta * quantum_ms);
  const runs = Math.ceil(least_ms / Math.max(whole.steps_ms, quantum_ms / 2));
  const by_runs = runs * whole.run_ms <= sample_ms;
  const once = by_runs ? whole : ways.windows(false);
  const rounds = by_runs ? runs : Math.max(1, Math.min(Math.ceil(least_ms / Math.max(once.steps_ms, quantum_ms / 2)), Math.floor(sample_ms / once.run_ms)));
  const pass = (/** @type {boolean} */ others) => (by_runs ? ways.run(others) : ways.windows(others));
  /** @type {Times[][]} without, with */
  const taken = [[], []];
  for (let i = 0; i < pairs; i++)
    for (const others of i % 2 ? [true, false] : [false, true]) {
      if (use(others)) pass(others); // what moved the weights has filled the caches with them
      const sum = { run_ms: 0, steps_ms: 0 };
      for (let r = 0; r < rounds; r++) {
        const times = pass(others);
        sum.run_ms += times.run_ms / rounds;
        sum.steps_ms += times.steps_ms / rounds;
      }
      taken[Number(others)].push(sum);
    }
  const [without, tried] = taken;
  const runs_of = (/** @type {Times[]} */ side) => (by_runs ? side.map((t) => t.run_ms) : []);
  return {
    ...{ mode: by_runs ? "runs" : "windows", rounds },
    ...{ ms: tried.map((t) => t.steps_ms), without_ms: without.map((t) => t.steps_ms) },
    ...{ runs_ms: runs_of(tried), runs_without_ms: runs_of(without) },
  };
}

/**
 * Two forms of one model, whole, in turns; each in a memory of its own.
 * @param {Engine} engine
 * @param {Engine} rival
 * @param {Tensor[]} inputs
 * @param {TrialPolicy} policy
 * @param {{now: () => number, quantum_ms: number}} clock
 * @returns {Trial}
 */
export function compareModels(engine, rival, inputs, { pairs, min_sample_ms, min_quanta, warmup_ms, max_ms }, { now, quantum_ms }) {
  const sides = [engine.stepper(inputs), rival.stepper(inputs)];
  let slowest_ms = 0;
  for (const run of sides) {
    const until = now() + warmup_ms;
    do {
      const start = now();
      run();
      slowest_ms = Math.max(slowest_ms, now() - start);
    } while (now() < until);
  }
  const least_ms = Math.max(min_sample_ms, min_quanta * quantum_ms);
  const rounds = Math.max(1, Math.min(Math.ceil(least_ms / Math.max(slowest_ms, quantum_ms / 2)), Math.floor(max_ms / (2 * pairs * slowest_ms))));
  /** @type {number[][]} */
  const taken = [[], []];
  for (let i = 0; i < pairs; i++)
    for (const side of i % 2 ? [1, 0] : [0, 1]) {
      sides[side](); // finds the caches as it leaves them
      const start = now();
      for (let r = 0; r < rounds; r++) sides[side]();
      taken[side].push((now() - start) / rounds);
    }
  const [without_ms, ms] = taken;
  return { mode: "models", rounds, ms, without_ms, runs_ms: ms, runs_without_ms: without_ms };
}

/** A bound plan, run with one set of kernels or the other. */
class Ways {
  /** @type {Window[]} */ #windows;
  /** @type {boolean[]} whether the kernels of a step differ */ #differs;

  /** @param {Rivals} rivals @param {Tensor[]} inputs @param {() => number} now */
  constructor({ loaded, now: today, others }, inputs, now) {
    this.loaded = loaded;
    this.sides = [today, others];
    this.now = now;
    this.feeds = feedsOf(loaded.plan, inputs).map(({ buffer, data }) => ({ address: loaded.addresses[buffer], data }));
    this.#differs = today.map((call, i) => call.kernel !== others[i].kernel);
    this.#windows = windowsOf(loaded, today.flatMap((_, i) => (this.#differs[i] ? [i] : [])));
    if (!this.#windows.length) throw new EngineError("No step of the plan runs the kernels to be tried.");
  }

  /** The whole model, once. @param {boolean} others @returns {Times} */
  run(others) {
    const calls = this.sides[Number(others)];
    const start = this.now();
    for (const { address, data } of this.feeds) this.#bytes(address, data.length).set(data);
    let steps_ms = 0;
    calls.forEach((call, i) => (this.#differs[i] ? (steps_ms += this.#timed(call)) : execute(call)));
    return { run_ms: this.now() - start, steps_ms };
  }

  /** Keeps what each window finds in a run. */
  save() {
    for (const { address, data } of this.feeds) this.#bytes(address, data.length).set(data);
    this.sides[0].forEach((call, i) => {
      for (const { first, saved } of this.#windows)
        if (first === i) for (const each of saved) each.bytes = this.#bytes(each.address, each.bytes.length).slice();
      execute(call);
    });
  }

  /** Every window once; `run_ms` is that of the windows. @param {boolean} others @returns {Times} */
  windows(others) {
    const calls = this.sides[Number(others)];
    const start = this.now();
    let steps_ms = 0;
    for (const { first, step, saved } of this.#windows) {
      for (const { address, bytes } of saved) this.#bytes(address, bytes.length).set(bytes);
      for (let i = first; i < step; i++) execute(calls[i]);
      steps_ms += this.#timed(calls[step]);
    }
    return { run_ms: this.now() - start, steps_ms };
  }

  /** @param {Call} call */
  #timed(call) {
    const start = this.now();
    execute(call);
    return this.now() - start;
  }

  /** @param {number} address @param {number} nbytes */
  #bytes(address, nbytes) {
    return new Uint8Array(this.loaded.memory.buffer, address, nbytes);
  }
}

/**
 * Windows around some of the steps, spread over the plan.
 * @param {Loaded} loaded
 * @param {number[]} steps in order
 * @returns {Window[]}
 */
export function windowsOf({ plan, addresses }, steps) {
  const count = Math.min(MOST_WINDOWS, steps.length);
  return Array.from({ length: count }, (_, i) => {
    const step = steps[Math.floor((i * steps.length) / count)];
    for (let first = Math.max(0, step - PREDECESSORS); ; first++) {
      const used = plan.steps.slice(first, step + 1).flatMap(({ args }) => args);
      const moving = [...new Set(used)].filter((b) => plan.buffers[b].region !== "weight");
      const nbytes = moving.reduce((sum, b) => sum + plan.buffers[b].nbytes, 0);
      if (first < step && nbytes > MOST_SAVED_BYTES) continue;
      return { first, step, saved: moving.map((b) => ({ address: addresses[b], bytes: new Uint8Array(plan.buffers[b].nbytes) })) };
    }
  });
}
