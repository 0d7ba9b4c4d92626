/** The page's own inferences, before a kernel was swapped in and since then. */
import { quantile } from "../../engine/quantile.js";

/** So many are the reference, and so many settle that a kernel stays. */
export const ENOUGH = 8;
const MOST = 200;
/** Slow ones in a row that end a trial at once: of 40 inferences, two do not move the 95th percentile. */
const IN_A_ROW = 2;
/** A kernel whose inferences take longer than this share of those before is not better. */
const NO_WORSE = 1.02;

/** @typedef {{median_ms: number, p95_ms: number, count: number}} Latency */

/** @param {number[]} ms @returns {Latency} */
export const latencyOf = (ms) => ({ median_ms: ms.length ? quantile(ms, 0.5) : 0, p95_ms: ms.length ? quantile(ms, 0.95) : 0, count: ms.length });

export class Watch {
  /** @type {number[]} */ #before = [];
  /** @type {number[]} */ #since = [];
  #swapped = false;
  #slow = 0;
  /** @type {number[]} */ #first = [];

  /**
   * @param {number} limit of the 95th percentile, as a share of that before
   * @param {number} quantum_ms of the clock, which sees no smaller difference
   */
  constructor(limit, quantum_ms = 0) {
    this.limit = limit;
    this.quantum_ms = quantum_ms;
  }

  /** Whether there is a reference to hold a new kernel against. */
  get ready() {
    return this.#before.length >= ENOUGH;
  }

  get before() {
    return latencyOf(this.#before);
  }

  get since() {
    return latencyOf(this.#since);
  }

  /** Of the first inferences of the visit. */
  get first() {
    return latencyOf(this.#first);
  }

  /** Of the last ones. */
  get latest() {
    return this.#since.length ? this.since : this.before;
  }

  /** @param {number} ms of an inference */
  took(ms) {
    if (this.#first.length < ENOUGH) this.#first.push(ms);
    const kept = this.#swapped ? this.#since : this.#before;
    if (kept.push(ms) > MOST) kept.shift();
    if (this.#swapped) this.#slow = ms > this.limit * this.before.p95_ms + this.quantum_ms ? this.#slow + 1 : 0;
  }

  /** A kernel was swapped in. */
  swap() {
    this.#swapped = true;
    this.#since = [];
    this.#slow = 0;
  }

  /** It stays, or it went: what follows is compared with `kept`. @param {boolean} stays */
  settle(stays) {
    if (stays) this.#before = this.#since;
    this.#since = [];
    this.#swapped = false;
  }

  /** @returns {"better" | "worse" | ""} empty: more inferences will tell */
  get verdict() {
    if (this.#slow >= IN_A_ROW) return "worse";
    if (this.#since.length < ENOUGH) return "";
    const { before, since } = this;
    const longer = (/** @type {number} */ now, /** @type {number} */ then) => now > then + this.quantum_ms;
    return longer(since.p95_ms, this.limit * before.p95_ms) || longer(since.median_ms, NO_WORSE * before.median_ms) ? "worse" : "better";
  }
}
