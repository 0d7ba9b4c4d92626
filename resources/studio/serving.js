/** The model in use: inference after inference, as a page would ask for them, while tuning goes on. */
import { errorFields } from "../engine/errors.js";
import { Governor } from "./governor.js";

/** @import { Gate } from "./gate.js" */
/** @import { Way } from "./governor.js" */
/**
 * @typedef {object} Sample
 * @property {number} latency_ms from request to answer
 * @property {number} generation how often kernels had been swapped
 * @property {boolean} touched whether tuning did anything in that time
 */
/**
 * @typedef {object} Options
 * @property {() => Promise<void>} infer one inference
 * @property {Gate} gate
 * @property {number} interval_ms between two requests; 0 is back to back
 * @property {number | null} budget share that tuning may add to p95; null is full speed
 * @property {boolean} core_free
 */

const MOST_SAMPLES = 20_000;
/** A measurement waits at the gate, and compile-ahead has ended by then: the page is quiet. */
const SETTLE_MS = 60;
/** The host works between its requests; one that is silent for longer has none to make. */
const HOST_MS = 1000;
/** Shorter gaps between requests are not worth a slice: a batch takes 5 ms. */
const MIN_GAP_MS = 10;
/** A worker that does not end its batch in this time is not waited for: the inference goes on without it. */
const OVERRUN_MS = 40;

export class Serving {
  /** @type {Sample[]} not asked for yet */ #samples = [];
  /** @type {{run: () => Promise<void>, done: () => void, failed: (e: unknown) => void}[]} */ #guests = [];
  /** @type {Promise<void> | null} */ #loop = null;
  #governor;
  #generation = 0;
  #touched_until = 0;
  #stopped = false;
  #held = false;
  #since;
  #open_before;
  #error = "";

  /**
   * @param {Options} options
   * @param {{now: () => number, sleep: (ms: number) => Promise<void>}} time
   */
  constructor(options, time) {
    this.options = options;
    this.time = time;
    this.#governor = options.budget === null ? null : new Governor(options.budget, options.core_free);
    this.#since = time.now();
    this.#open_before = options.gate.open_ms;
  }

  /** Runs the model once, which tells whether it runs at all, then on and on. */
  async start() {
    await this.options.infer();
    if (this.#governor) this.options.gate.shut();
    else this.options.gate.free();
    this.#loop = this.#run();
  }

  /** Ends it after the present inference; tuning is free again. */
  async stop() {
    this.#stopped = true;
    await this.#loop;
  }

  /** The host began something that shows on these cores, or ended it and goes on by itself. */
  touch(began = true) {
    this.#touched_until = this.time.now() + (began ? SETTLE_MS : HOST_MS);
  }

  /** Kernels were swapped. */
  swapped() {
    this.#generation++;
  }

  /**
   * Has something else run on the engine between two inferences, when the budget allows it.
   * @template T
   * @param {() => Promise<T>} run
   * @returns {Promise<T>}
   */
  async between(run) {
    if (!this.#governor || !this.#loop || this.#stopped) return run();
    /** @type {T[]} */
    const result = [];
    await new Promise((done, failed) => {
      const keep = async () => void result.push(await run());
      this.#guests.push({ run: keep, done: () => done(undefined), failed });
    });
    return result[0];
  }

  /**
   * Stops tuning at the gate, for as long as it is held.
   * @param {boolean} held
   */
  hold(held) {
    this.#held = held;
  }

  /**
   * Another budget from now on; what was learned of the latency stays. At full speed there is none.
   * @param {number} budget as in {@link Options}
   */
  keep(budget) {
    if (this.#governor) this.#governor.budget = budget;
  }

  /** What happened since the last time: fields of the reply `served`. */
  take() {
    const samples = this.#samples.splice(0);
    const now = this.time.now();
    const open = this.options.gate.open_ms;
    const fields = {
      latencies_ms: samples.map((s) => Math.round(s.latency_ms * 1000) / 1000),
      generations: samples.map((s) => s.generation),
      touched: samples.map((s) => s.touched),
      elapsed_ms: now - this.#since,
      tuning_ms: open - this.#open_before,
      reference_p95_ms: this.#governor?.reference_ms ?? null,
      error: this.#error,
    };
    this.#since = now;
    this.#open_before = open;
    return fields;
  }

  async #run() {
    const { interval_ms, infer, gate } = this.options;
    const { now, sleep } = this.time;
    try {
      let due = now();
      while (!this.#stopped) {
        let by = this.#grant();
        if (by === "alongside" && this.#guests.length) by = "between";
        if (by !== "alongside") by = await this.#useGap(due, by);
        const early = due - now();
        if (early > 0) await sleep(early);
        // a timer that is late is no waiting for the model; a slice that is late is
        const request = early > 0 ? now() : due;
        if (by === "between") by = await this.#slice();
        if (this.#stopped) break;
        if (by === "alongside" && !gate.waiting && !gate.busy) by = "gaps";
        await infer();
        this.#record(request, by);
        due = Math.max(due + interval_ms, now() - interval_ms);
      }
    } catch (e) {
      this.#error = errorFields(e).error;
      this.#stopped = true;
    }
    this.options.gate.free();
    for (const { run, done, failed } of this.#guests.splice(0)) await run().then(done, failed);
  }

  /** @returns {Way} */
  #grant() {
    const { gate } = this.options;
    const way = this.#held ? "" : (this.#governor?.grant() ?? "alongside");
    if (way === "alongside") gate.free();
    else if (gate.open) gate.shut();
    return this.#governor ? way : "";
  }

  /**
   * Tunes while no inference is due: that costs nobody anything.
   * @param {number} due when it is
   * @param {Way} by
   * @returns {Promise<Way>} what is still to be done
   */
  async #useGap(due, by) {
    const { gate } = this.options;
    const gap = due - this.time.now();
    if (gap < MIN_GAP_MS) return by;
    if (by === "" || this.#guests.length || !gate.waiting) return by;
    await gate.slice(gap / 2, gap + OVERRUN_MS);
    if (this.time.now() > due) this.touch();
    return "gaps";
  }

  /**
   * The next inference waits for this.
   * @returns {Promise<Way>} what came of it
   */
  async #slice() {
    const { gate } = this.options;
    const guest = this.#guests.shift();
    if (guest) await guest.run().then(guest.done, guest.failed);
    else if (this.#governor && gate.waiting) {
      const { slice_ms } = this.#governor;
      await gate.slice(slice_ms, slice_ms + OVERRUN_MS);
    } else return "gaps"; // nothing wants it
    this.#governor?.taken();
    return "between";
  }

  /** @param {number} request @param {Way} by */
  #record(request, by) {
    const { gate } = this.options;
    const latency_ms = this.time.now() - request;
    const touched = by === "between" || by === "alongside" || gate.busy || request < this.#touched_until;
    const why = touched ? (by === "" || by === "gaps" ? "touched" : by) : "";
    this.#governor?.answered(latency_ms, this.#generation, why, this.#held);
    this.#samples.push({ latency_ms, generation: this.#generation, touched });
    if (this.#samples.length > MOST_SAMPLES) this.#samples.shift();
  }
}
