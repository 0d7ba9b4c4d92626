/** Tuning of one session: what a page starts, asks and stops. */
import { hasTier, TIERS } from "../../engine/features.js";
import { fetchFile } from "../bundle_fetch.js";
import { sha256 } from "../digest.js";
import { browserOf, indexedStore, readKnown } from "./memory.js";
import { isHidden, moment, pause, share, termsOf } from "./moments.js";
import { Queue, remembered } from "./queue.js";
import { WorkerTrials } from "./trials.js";
import { SERVED, Tuner } from "./tuner.js";

/** @import { Engine } from "../../engine/engine.js" */
/** @import { Bundle, KernelEntry, Tensor } from "../../types/engine.js" */
/** @import { Kernel } from "./bench.js" */
/** @import { Store } from "./memory.js" */
/** @import { TuneOptions } from "./moments.js" */
/** @import { QueueReport } from "./queue.js" */
/** @import { Page, Result } from "./tuner.js" */
/** @import { Latency } from "./watch.js" */
/**
 * What tuning has done for this session so far. `gain` is the model's time before over that now, as
 * runs in turns showed it in this and former visits, and the ends of its interval; `before` and `now` are
 * inferences of this visit.
 * @typedef {object} TuningReport
 * @property {string} state waiting, working, done, budget used or stopped
 * @property {{browser: string, tier: string, threads: number}} device
 * @property {number} visits
 * @property {number} spentMs
 * @property {{speedup: number, low: number, high: number}} gain
 * @property {{before: Latency, now: Latency}} latency
 * @property {Record<string, string>} kernels settings of each workload as it runs
 * @property {Result[]} tried in this visit
 * @property {number} rolledBack
 * @property {boolean} remembered whether the next visit will know
 * @property {string} shared the address that times were sent to; empty for none
 * @property {QueueReport | null} queue the compile service, how many kernels came in this visit, and why it is asked no more
 */
/** What runs. @typedef {{bundle: Bundle, engine: Engine, tier: string, threads: number}} Session */

export class Tuning {
  /** @type {Promise<TuningReport>} */ done = Promise.resolve(/** @type {any} */ (null));
  #shared = "";

  /**
   * @param {Session} session
   * @param {Tuner} tuner
   * @param {string} browser
   * @param {boolean} remembered
   */
  constructor(session, tuner, browser, remembered) {
    this.session = session;
    this.tuner = tuner;
    this.browser = browser;
    this.remembered = remembered;
  }

  /**
   * @param {Session} session
   * @param {TuneOptions} options
   * @param {Page} [page]
   * @param {Store} [store]
   * @returns {Promise<Tuning>} that has begun
   */
  static async start(session, options, page, store = indexedStore) {
    const { bundle, engine, tier, threads } = session;
    const { kernels: own, candidates } = bundle.manifest;
    const terms = termsOf(options, candidates?.share ?? "");
    const browser = browserOf(globalThis.navigator?.userAgent ?? "");
    const hash = await digest(bundle.manifest);
    const key = JSON.stringify([hash, browser, tier, threads]);
    const known = readKnown(await store.load(key));
    known.visits++;
    const shipped = (/** @type {KernelEntry} */ entry) => shippedOf(bundle.base, entry);
    const queue = terms.queue ? new Queue(terms.queue, tier, candidates?.lots ?? {}) : null;
    const served = (await remembered(known.served, terms.queue)).map(({ header, bytes }) => ({ header, bytes: async () => bytes, candidate: SERVED }));
    const listed = (candidates?.kernels ?? []).map((entry, candidate) => ({ ...shipped(entry), candidate }));
    const parts = {
      engine,
      queue,
      own: own.map(shipped),
      candidates: [...listed, ...served],
      trials: candidates?.trials ?? [],
    };
    const tuner = new Tuner(parts, known, terms, page ?? { moment: () => moment(terms.when), pause, hidden: isHidden, trials: new WorkerTrials() });
    await tuner.restore();
    const tuning = new Tuning(session, tuner, browser, hash !== "");
    tuning.done = tuner.work().then(async () => {
      if (hash) await store.save(key, known);
      if (terms.share && tuner.results.length) await tuning.#share(terms.share, hash);
      return tuning.report();
    });
    tuning.done.catch(() => {}); // who waits for it is told
    return tuning;
  }

  standAside() {
    this.tuner.standAside();
  }

  /** @param {Tensor[]} inputs @param {number} ms */
  took(inputs, ms) {
    this.tuner.took(inputs, ms);
  }

  stop() {
    this.tuner.stop();
  }

  /** @returns {TuningReport} */
  report() {
    const { tuner, session, browser, remembered } = this;
    const [speedup, low, high] = tuner.known.gain;
    return {
      state: tuner.state,
      device: { browser, tier: session.tier, threads: session.threads },
      visits: tuner.known.visits,
      spentMs: tuner.spent_ms,
      gain: { speedup, low, high },
      latency: { before: tuner.watch.first, now: tuner.watch.latest },
      kernels: tuner.running,
      tried: tuner.results.map((result) => ({ ...result })),
      rolledBack: tuner.rolledBack,
      remembered,
      shared: this.#shared,
      queue: tuner.parts.queue ? { from: tuner.parts.queue.from, kernels: tuner.parts.queue.kernels, problem: tuner.parts.queue.problem } : null,
    };
  }

  /** @param {string} url @param {string} bundle */
  async #share(url, bundle) {
    const results = this.tuner.results.map(({ candidate, settings, outcome, ms, incumbent_ms }) => ({ candidate, settings, outcome, ms, incumbent_ms }));
    await share(url, { bundle, tier: this.session.tier, results });
    this.#shared = url;
  }
}

/** @param {URL} base @param {KernelEntry} entry */
function shippedOf(base, { tiers, ...header }) {
  const tier = TIERS.filter((each) => hasTier(each)).find((each) => tiers[each]) ?? "";
  const file = tiers[tier];
  /** @type {Promise<Uint8Array<ArrayBuffer>> | null} */
  let bytes = null;
  const fetched = () => (file ? (bytes ??= fetchFile(base, file)) : Promise.reject(new Error(`no kernel of a tier that runs here`)));
  return { header: /** @type {Kernel["header"]} */ ({ ...header, tier, sha256: file?.sha256 ?? "" }), bytes: fetched };
}

/** The sha256 of what the manifest says of files. @param {object} manifest */
const digest = (manifest) => sha256(new TextEncoder().encode(JSON.stringify(manifest)));
