/**
 * A kernel in the loaded model, beside the one that runs: whole runs in turns, a slice at a time,
 * so that an inference of the page waits for one slice at most and ends the run.
 */
import { feedsOf } from "../../engine/plan.js";
import { execute } from "../../engine/steps.js";
import { rivalsOf } from "../../engine/tuning/in_place.js";

/** @import { Engine } from "../../engine/engine.js" */
/** @import { Call, Loaded, NewKernel, Tensor } from "../../types/engine.js" */
/** @typedef {{run_ms: number, steps_ms: number}} Times of the whole model, and of the steps that differ */

const SLICE_MS = 2;
/** A shorter sample than so many steps of the clock says little; a run may be repeated so often for it. */
const LEAST_QUANTA = 20;
const MOST_PASSES = 64;
/** Of the largest value: sums in another order differ by less, also behind many layers. */
const OUTPUT_TOLERANCE = 1e-3;

export class InPlace {
  /** Puts the weights back; null while nothing runs. @type {(() => unknown) | null} */ #leave = null;
  #interrupted = false;

  /**
   * @param {Engine} engine
   * @param {() => Promise<unknown>} pause lets the page go on between slices
   * @param {number} quantum_ms of the clock
   */
  constructor(engine, pause, quantum_ms) {
    this.engine = engine;
    this.pause = pause;
    this.least_ms = LEAST_QUANTA * quantum_ms;
    /** Inferences of the page that met a slice. */
    this.met = 0;
    this.spent_ms = 0;
  }

  /** The page wants the engine now: weights lie again as its kernels want them. */
  standAside() {
    if (!this.#leave || this.#interrupted) return;
    this.#leave();
    this.#interrupted = true;
    this.met++;
  }

  /**
   * Pairs of times, without the kernel and with it, until they decide.
   * @param {NewKernel} kernel
   * @param {Tensor[]} inputs
   * @param {() => Promise<unknown>} turn waits until a run may begin
   * @param {(without: Times[], tried: Times[]) => boolean} decided is asked after every pair
   * @returns {Promise<boolean>} whether the model gives the same with it, on these inputs
   */
  async compare(kernel, inputs, turn, decided) {
    /** @type {Times[][]} without, with */
    const taken = [[], []];
    /** @type {(Float32Array[] | null)[]} the same */
    const outputs = [null, null];
    const rivals = await rivalsOf(this.engine, [kernel]);
    const differs = rivals.now.map((call, i) => call.kernel !== rivals.others[i].kernel);
    /** Whole runs on one side until they are long enough for the clock. */
    const sample = async (/** @type {boolean} */ others) => {
      const calls = others ? rivals.others : rivals.now;
      const times = { run_ms: 0, steps_ms: 0 };
      let passes = 0;
      const pass = async () => {
        let [run_ms, steps_ms] = [0, 0];
        const add = (/** @type {number} */ i, /** @type {number} */ ms) => {
          run_ms += ms;
          if (differs[i]) steps_ms += ms;
        };
        if (!(await this.#pass(rivals.loaded, calls, inputs, add))) return false;
        times.run_ms += run_ms;
        times.steps_ms += steps_ms;
        passes++;
        return true;
      };
      const enough = () => passes > 0 && (passes >= MOST_PASSES || times.run_ms >= this.least_ms);
      while (!enough()) {
        await turn();
        await this.#held(
          () => rivals.use(false),
          async () => {
            const moved = rivals.use(others); // which has filled the caches with weights
            let going = !moved || (await this.#pass(rivals.loaded, calls, inputs, () => {}));
            while (going && !enough()) going = await pass();
            if (going && !this.#interrupted) outputs[Number(others)] ??= floatsOf(rivals.loaded);
            return going;
          },
        );
      }
      return { run_ms: times.run_ms / passes, steps_ms: times.steps_ms / passes };
    };
    try {
      do {
        for (const side of taken[0].length % 2 ? [1, 0] : [0, 1]) taken[side].push(await sample(side === 1));
        const [without, tried] = outputs;
        if (without && tried && !without.every((values, i) => isNear(values, tried[i]))) return false;
      } while (!decided(taken[0], taken[1]));
      return true;
    } finally {
      rivals.drop();
    }
  }

  /**
   * Ms of a run by workload.
   * @param {Tensor[]} inputs
   * @param {() => Promise<unknown>} turn
   * @returns {Promise<Map<string, number>>}
   */
  async profile(inputs, turn) {
    for (;;) {
      await turn();
      const { loaded, calls } = this.engine.inside();
      const ms = new Map();
      const add = (/** @type {number} */ i, /** @type {number} */ took) => {
        const workload = calls[i].kernel?.header.workload;
        if (workload) ms.set(workload, (ms.get(workload) ?? 0) + took);
      };
      if (await this.#held(() => {}, () => this.#pass(loaded, calls, inputs, add))) return ms;
    }
  }

  /** @param {() => unknown} leave @param {() => Promise<boolean>} run @returns {Promise<boolean>} false when the page came in between */
  async #held(leave, run) {
    this.#leave = leave;
    this.#interrupted = false;
    try {
      return await run();
    } finally {
      if (!this.#interrupted) leave();
      this.#leave = null;
    }
  }

  /**
   * @param {Loaded} loaded
   * @param {Call[]} calls
   * @param {Tensor[]} inputs
   * @param {(step: number, ms: number) => void} took
   */
  async #pass({ plan, memory, addresses }, calls, inputs, took) {
    for (const { buffer, data } of feedsOf(plan, inputs)) new Uint8Array(memory.buffer, addresses[buffer], data.length).set(data);
    for (let i = 0; i < calls.length; ) {
      const from = performance.now();
      let before = from;
      do {
        execute(calls[i]);
        const now = performance.now();
        took(i, now - before);
        before = now;
      } while (++i < calls.length && before - from < SLICE_MS);
      this.spent_ms += before - from;
      if (i < calls.length) await this.pause();
      if (this.#interrupted) return false;
    }
    return true;
  }
}

/** The outputs in f32, as a run left them. @param {Loaded} loaded */
function floatsOf({ plan, memory, addresses }) {
  const floats = plan.outputs.filter(({ spec }) => spec.dtype === "f32");
  return floats.map(({ buffer }) => new Float32Array(memory.buffer.slice(addresses[buffer], addresses[buffer] + plan.buffers[buffer].nbytes)));
}

/** @param {Float32Array} values @param {Float32Array} others */
function isNear(values, others) {
  const largest = values.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);
  return values.every((x, i) => Object.is(x, others[i]) || Math.abs(x - others[i]) <= OUTPUT_TOLERANCE * largest);
}
