/** Tuning while a page is in use: one candidate after the other, each of which has to prove itself. */
import { errorFields } from "../../engine/errors.js";
import { quantile } from "../../engine/quantile.js";
import { timerQuantum } from "../../engine/tuning/timing.js";
import { InPlace } from "./in_place.js";
import { LOOKS, settled, speedupOf } from "./interval.js";
import { Watch } from "./watch.js";

/** @import { Engine } from "../../engine/engine.js" */
/** @import { Tensor } from "../../types/engine.js" */
/** @import { Kernel } from "./bench.js" */
/** @import { Speedup } from "./interval.js" */
/** @import { Gain, Known } from "./memory.js" */
/** @import { Queue } from "./queue.js" */
/** @import { Terms } from "./moments.js" */
/** @import { Trials } from "./trials.js" */
/** @typedef {import("../../types/engine.js").TrialMemory} TrialMemory */
/** A kernel of the bundle by its header; its bytes come when they are wanted. @typedef {{header: Kernel["header"], bytes: () => Promise<Uint8Array<ArrayBuffer>>}} Shipped */
/** `candidate` is its number in the manifest, `SERVED` for one of a compile service. @typedef {Shipped & {candidate: number}} Candidate */
/**
 * What became of a candidate in this visit.
 * @typedef {{candidate: number, workload: string, settings: string, outcome: string, reason: string, isolated: Speedup | null, inPlace: Speedup | null, ms: number, incumbent_ms: number}} Result
 */
/** The page as tuning sees it. @typedef {{moment: () => Promise<unknown>, pause: () => Promise<unknown>, hidden: () => boolean, trials: Trials}} Page */
/** @typedef {{engine: Engine, own: Shipped[], candidates: Candidate[], trials: TrialMemory[], queue?: Queue | null}} Parts */

/** A smaller gain of a kernel is not worth a swap. */
const LEAST_GAIN = 1.03;
/** What the model may lose by a kernel that gains: less than this cannot be told from nothing. */
const NO_LOSS = 0.995;
const POLICY = { pairs: 2, min_sample_ms: 2, min_quanta: 20, warmup_ms: 30, early_stop_ratio: 1.5, max_ms: 400 };
/** In place, for a kernel that is to be run: the interval of fewer says too little of the model. */
const LEAST_PAIRS = 4;
/** Steps of the clock that are looked at: some browsers' take a millisecond each. */
const QUANTA = 3;
/** Share of the time for work in the page's own thread while somebody looks at it, and while nobody does. */
const DUTY = 0.05;
const HIDDEN_DUTY = 0.5;
/** After an inference the page's next one is near. */
const REST_MS = 30;
/** Share of inferences that may meet a slice; before this many, none may again. */
const MOST_MET = 0.03;

/** A burst of the machine may look like a slow kernel: it gets a second chance. */
const ROLLED_BACK_ONCE = "rolled back once";
const UNFINISHED = "unfinished";
/** The number of a candidate that a compile service gave. */
export const SERVED = -1;
/** Its lots go from likely to unlikely: after so many without a winner, the rest is not asked for. */
const PATIENCE = 3;
/** Ends the work wherever it stands. */
const STOPPED = Symbol("stopped");

export class Tuner {
  /** @type {Result[]} */ results = [];
  /** @type {Map<string, Shipped>} by workload */ #running = new Map();
  /** @type {Tensor[] | null} of the page's first inference */ #inputs = null;
  #stopped = false;
  #worker_ms = 0;
  #count = 0;
  #last = -Infinity;
  #seen_ms = 0;
  /** @type {Shipped | null} what ran before the kernel on trial */ #before = null;

  /**
   * @param {Parts} parts
   * @param {Known} known of former visits; changed as tuning goes on
   * @param {Terms} terms
   * @param {Page} page
   */
  constructor(parts, known, terms, page) {
    this.parts = parts;
    this.known = known;
    this.terms = terms;
    this.page = page;
    const quantum_ms = timerQuantum(() => performance.now(), QUANTA);
    this.watch = new Watch(terms.limit, quantum_ms);
    this.inPlace = new InPlace(parts.engine, page.pause, quantum_ms);
    this.state = "waiting";
    this.rolledBack = 0;
    for (const kernel of parts.own) this.#running.set(kernel.header.workload, kernel);
  }

  get spent_ms() {
    return this.#worker_ms + this.inPlace.spent_ms;
  }

  /** Settings of each workload as it runs now. */
  get running() {
    return Object.fromEntries([...this.#running].map(([workload, { header }]) => [workload, header.settings]));
  }

  /** The winners of former visits run at once. */
  async restore() {
    const won = this.parts.candidates.filter(({ header: { workload, settings } }) => this.known.won[workload] === settings);
    for (const each of won) await this.#use(each).catch(() => delete this.known.won[each.header.workload]);
  }

  /** Before the page's inference. */
  standAside() {
    this.inPlace.standAside();
  }

  /** After it. @param {Tensor[]} inputs @param {number} ms */
  took(inputs, ms) {
    this.#inputs ??= inputs.map((t) => ({ ...t, data: t.data.slice() }));
    this.#count++;
    this.#last = performance.now();
    this.watch.took(ms);
  }

  /** For good: the engine may be gone from now on. */
  stop() {
    this.#stopped = true;
    this.page.trials.close();
    this.parts.queue?.close();
  }

  /** Works until the budget is used or nothing is left to try. */
  async work() {
    try {
      while (!this.#inputs || !this.watch.ready) await this.#turn();
      this.state = "working";
      for (const each of this.parts.candidates) if (this.#onTrial(each)) await this.#consider(each);
      const order = await this.#order();
      for (const workload of order)
        for (const candidate of this.parts.candidates.filter(({ header }) => header.workload === workload)) await this.#consider(candidate);
      while (await this.#askInTurn(order));
      this.state = "done";
    } catch (e) {
      if (e !== STOPPED && !this.#stopped) throw e; // a released engine fails in its own words
      this.state = this.#stopped ? "stopped" : "budget used";
    } finally {
      this.page.trials.close();
    }
  }

  /** Waits until work may go on. */
  async #turn() {
    if (this.#stopped || this.spent_ms >= this.terms.budget_ms) throw STOPPED;
    await this.page.moment();
    if (this.#stopped) throw STOPPED;
  }

  /** Waits until a run in the page's thread may begin: it rests in between, and after an inference. */
  async #ownTurn() {
    const took = this.inPlace.spent_ms - this.#seen_ms;
    this.#seen_ms = this.inPlace.spent_ms;
    const ended = performance.now();
    for (;;) {
      await this.#turn();
      const now = performance.now();
      const hidden = this.page.hidden();
      const rest = took / (hidden ? HIDDEN_DUTY : DUTY) - took;
      const met = !hidden && this.inPlace.met > MOST_MET * this.#count;
      if (!met && now >= ended + rest && now >= this.#last + REST_MS) return;
    }
  }

  /** Workloads, the one that takes most of the model's time first. */
  async #order() {
    const ms = await this.inPlace.profile(/** @type {Tensor[]} */ (this.#inputs), () => this.#ownTurn());
    return [...ms].sort(([, a], [, b]) => b - a).map(([workload]) => workload);
  }

  /** A lot of each workload's kernels from the compile service. @param {string[]} order @returns {Promise<boolean>} whether there may be more */
  async #askInTurn(order) {
    const { queue, trials } = this.parts;
    let more = false;
    for (const workload of order) {
      const at = this.known.asked[workload] ?? { after: 0, idle: 0 };
      if (!queue || at.idle >= PATIENCE || !trials.some((trial) => trial.workload === workload)) continue;
      await this.#turn();
      const lot = await queue.next(workload, at.after, (settings) => !this.#isSettled(workload, settings));
      if (!lot) continue;
      for (const { header, bytes } of lot.kernels) {
        const outcome = await this.#consider({ header, bytes: async () => bytes, candidate: SERVED });
        if (outcome === "wrong") queue.distrust(`${queue.from} gave a kernel that is wrong.`);
        if (queue.problem) break;
      }
      if (queue.problem) return false;
      const won = lot.kernels.some(({ header }) => this.known.won[workload] === header.settings);
      this.known.asked[workload] = { after: lot.after, idle: lot.after === at.after ? PATIENCE : won ? 0 : at.idle + 1 };
      more = true;
    }
    return more;
  }

  /** Whether it runs, or was tried for good. @param {string} workload @param {string} settings */
  #isSettled(workload, settings) {
    const before = this.known.tried[workload]?.[settings];
    return this.#of(workload).header.settings === settings || (!!before && before !== ROLLED_BACK_ONCE);
  }

  /** Whether it did better in place, now or in a former visit. @param {Candidate} candidate */
  #onTrial({ header: { workload, settings } }) {
    const { trial } = this.known;
    return trial?.workload === workload && trial.settings === settings;
  }

  /** @param {Candidate} candidate @returns {Promise<string>} the outcome; empty where there was nothing to do */
  async #consider(candidate) {
    const { workload, settings } = candidate.header;
    const before = this.known.tried[workload]?.[settings];
    if (this.#isSettled(workload, settings)) return "";
    /** @type {Result} */
    const result = { candidate: candidate.candidate, workload, settings, outcome: UNFINISHED, reason: "", isolated: null, inPlace: null, ms: 0, incumbent_ms: 0 };
    this.results.push(result);
    try {
      const failed = this.#onTrial(candidate) ? "" : (await this.#isolate(candidate, result)) || (await this.#confirm(candidate, result));
      result.outcome = failed || (await this.#prove(candidate, result, before === ROLLED_BACK_ONCE));
    } catch (e) {
      if (e === STOPPED || this.#stopped) throw STOPPED;
      const { error } = errorFields(e);
      Object.assign(result, { outcome: "failed", reason: error });
    }
    return ((this.known.tried[workload] ??= {})[settings] = result.outcome);
  }

  /**
   * In the worker, on random memory.
   * @param {Candidate} candidate
   * @param {Result} result
   * @returns {Promise<string>} why it goes no further; empty when it does
   */
  async #isolate(candidate, result) {
    const { workload } = candidate.header;
    const trial = this.parts.trials.find((t) => t.workload === workload);
    const own = this.parts.own.find(({ header }) => header.workload === workload);
    if (!trial || !own) return "failed";
    const [challenger, incumbent] = [await kernelOf(candidate), await kernelOf(this.#of(workload))];
    // who knows the numbers beforehand could write a kernel that is right for them alone
    const seed = candidate.candidate === SERVED ? { seed: crypto.getRandomValues(new Uint32Array(1))[0] } : {};
    await this.#ask({ trial, own: await kernelOf(own), ...seed });
    /** @type {number[][]} */
    const [mine, its] = [[], []];
    for (const look of LOOKS) {
      while (mine.length < look) {
        const found = await this.#ask({ challenger, incumbent, policy: POLICY });
        if (!found || found.error) return Object.assign(result, { reason: found?.error ?? "no answer" }), "failed";
        if (!(Number(found.error_ratio) <= 1 && found.guard_ok)) return "wrong";
        const pairs = Math.min(found.samples_ms.length, found.incumbent_ms.length);
        if (!pairs) return "failed";
        mine.push(...found.samples_ms.slice(0, pairs));
        its.push(...found.incumbent_ms.slice(0, pairs));
        if (found.stopped_early) return "slower";
      }
      const isolated = speedupOf(mine.slice(0, look), its.slice(0, look));
      Object.assign(result, { isolated, ms: quantile(mine, 0.5), incumbent_ms: quantile(its, 0.5) });
      const outcome = settled(isolated, LEAST_GAIN);
      if (outcome) return outcome === "faster" ? "" : outcome;
    }
    return "not told apart";
  }

  /** @param {import("./bench.js").Request} request */
  async #ask(request) {
    await this.#turn();
    const start = performance.now();
    try {
      return await this.page.trials.answer(request);
    } finally {
      this.#worker_ms += performance.now() - start;
    }
  }

  /**
   * In the model, in turns with the kernel that runs.
   * @param {Candidate} candidate
   * @param {Result} result
   * @returns {Promise<string>} why it goes no further; empty when it does
   */
  async #confirm(candidate, result) {
    let outcome = "";
    const { header, bytes } = await kernelOf(candidate);
    const same = await this.inPlace.compare({ ...header, bytes }, /** @type {Tensor[]} */ (this.#inputs), () => this.#ownTurn(), (without, tried) => {
      if (!LOOKS.includes(tried.length)) return false;
      const steps = speedupOf(tried.map((t) => t.steps_ms), without.map((t) => t.steps_ms));
      const model = (result.inPlace = speedupOf(tried.map((t) => t.run_ms), without.map((t) => t.run_ms)));
      outcome = model.high < 1 ? "slower" : settled(steps, 1);
      if (outcome === "faster" && tried.length < LEAST_PAIRS) outcome = "";
      if (outcome === "faster" && model.speedup < NO_LOSS) outcome = tried.length === LOOKS[LOOKS.length - 1] ? "slower" : "";
      return outcome !== "";
    });
    if (!same) return "wrong";
    return outcome === "faster" ? "" : `${outcome} in place`;
  }

  /**
   * Runs it for the page, and takes it back when the page's inferences are not better for it.
   * @param {Candidate} candidate
   * @param {Result} result
   * @param {boolean} again whether it was taken back before
   * @returns {Promise<string>}
   */
  async #prove(candidate, result, again) {
    const { workload, settings } = candidate.header;
    while (!this.watch.ready) await this.#turn();
    this.#before = this.#of(workload);
    await this.#use(candidate);
    await this.#keep(candidate);
    this.watch.swap();
    if (!this.#onTrial(candidate)) this.known.trial = { workload, settings, gain: gainOf(result.inPlace) };
    const { gain } = /** @type {{gain: Gain}} */ (this.known.trial);
    try {
      while (!this.watch.verdict) await this.#turn();
    } catch (e) {
      if (!this.#stopped) await this.#undo(); // it has not proved itself yet, and nobody will look
      throw e;
    }
    this.known.trial = null;
    if (this.watch.verdict === "worse") {
      await this.#undo();
      this.rolledBack++;
      return again ? "rolled back" : ROLLED_BACK_ONCE;
    }
    this.watch.settle(true);
    this.known.won[workload] = settings;
    this.known.gain = /** @type {Gain} */ (gain.map((x, i) => x * this.known.gain[i]));
    return "won";
  }

  /** The next visit needs its bytes, and the server may be gone then. @param {Candidate} candidate */
  async #keep(candidate) {
    const { queue } = this.parts;
    if (!queue || candidate.candidate !== SERVED) return;
    const { header, bytes } = await kernelOf(candidate);
    this.known.served = this.known.served.filter(({ header: old }) => old.workload !== header.workload || this.known.won[old.workload] === old.settings);
    this.known.served.push({ from: queue.from, header, bytes });
  }

  async #undo() {
    if (this.#before) await this.#use(this.#before);
    this.watch.settle(false);
  }

  /** @param {Shipped} kernel */
  async #use(kernel) {
    const { header, bytes } = await kernelOf(kernel);
    await this.parts.engine.register([{ ...header, bytes }]);
    this.#running.set(header.workload, kernel);
  }

  /** @param {string} workload */
  #of(workload) {
    return /** @type {Shipped} */ (this.#running.get(workload));
  }
}

/** @param {Speedup | null} found @returns {Gain} */
const gainOf = (found) => (found ? [found.speedup, found.low, found.high] : [1, 1, 1]);

/** @param {Shipped} kernel @returns {Promise<Kernel>} */
const kernelOf = async ({ header, bytes }) => ({ header, bytes: await bytes() });
