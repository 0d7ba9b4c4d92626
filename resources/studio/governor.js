/**
 * How much tuning a serving model bears: a budget of slow inferences.
 *
 * An inference is slow when it takes longer than `1 + budget` times the 95th
 * percentile of the quiet ones, those that no tuning touched. As long as fewer
 * than 5 % of all inferences are slow, p95 keeps the budget, however slow they
 * are. So every inference earns a share of one slow inference, every slow one,
 * whatever made it so, costs a whole, and tuning goes on while there is credit.
 */
import { quantile } from "../engine/quantile.js";

/** What is earned by an inference: below the 5 % of p95, for the estimate has an error of its own. */
export const SHARE = 0.045;
/** Limits of the credit: no burst of delays after a calm, no long silence after a storm. */
const MOST_SAVED = 2;
const MOST_OWED = 5;
/** Quiet inferences that make the reference. */
const REFERENCE = 200;
export const ENOUGH = 20;
/** After a swap so many new ones say by how much those of the kernels before are to be scaled. */
const FEW = 5;
/** After so many inferences tuning gets a slice whatever the credit: a noisy machine must not end it. */
export const STARVED = 100;
/** So long an inference may wait for a slice, the batch that it ends with aside; or as long as it takes by itself. */
const SLICE_MS = 60;
const LONGEST_SLICE_MS = 1000;
/** After so many touched inferences there are ENOUGH quiet ones, unless one in five is quiet anyway. */
const MOST_TOUCHED = 80;
/** How fast it is forgotten that running alongside was slow. */
const FORGET = 0.995;

/**
 * "between": one inference may wait for a slice. "gaps": only while no inference is due.
 * "alongside": at any time.
 * @typedef {"" | "gaps" | "between" | "alongside"} Way
 */

export class Governor {
  /** @type {number[]} latencies with the present kernels, oldest first */ #quiet = [];
  /** @type {number[]} with the kernels before */ #older = [];
  #generation = 0;
  #credit = 1;
  #starved = 0;
  #touched = 0;
  #rest = 0;
  #along = 0;
  #along_slow = 0;
  #p50_ms = 0;
  /** @type {number | null} */ #p95_ms = null;
  /** @type {Way} */ #way = "";

  /**
   * @param {number} budget added to p95, 0.05 is 5 %
   * @param {boolean} core_free a core that the model's threads do not need
   */
  constructor(budget, core_free) {
    this.budget = budget;
    this.core_free = core_free;
  }

  /** p95 of the quiet inferences, ms; null until there are enough. */
  get reference_ms() {
    return this.#p95_ms;
  }

  get credit() {
    return this.#credit;
  }

  /** How long the next slice is to be, ms. */
  get slice_ms() {
    return Math.min(LONGEST_SLICE_MS, Math.max(SLICE_MS, this.#p50_ms));
  }

  /**
   * An inference was answered.
   * @param {number} latency_ms
   * @param {number} generation of its kernels
   * @param {Way | "touched"} by what of tuning fell into it
   * @param {boolean} [held] tuning rested by order: what is saved then must not be spent later
   */
  answered(latency_ms, generation, by, held = false) {
    if (generation !== this.#generation) {
      this.#generation = generation;
      this.#older = this.#reference() ?? this.#older;
      this.#quiet = [];
      this.#p95_ms = null;
    }
    const reference = this.#p95_ms;
    if (!held) this.#starved = by === "alongside" ? 0 : this.#starved + 1;
    if (by === "") {
      this.#quiet = [...this.#quiet.slice(1 - REFERENCE), latency_ms];
      this.#summarise();
      if (this.#rest) this.#rest--;
      else this.#touched = Math.max(0, this.#touched - MOST_TOUCHED / ENOUGH);
    } else if (++this.#touched >= MOST_TOUCHED) [this.#touched, this.#rest] = [0, ENOUGH];
    if (reference === null || held) return;
    const slow = latency_ms > (1 + this.budget) * reference ? 1 : 0;
    this.#credit = Math.min(MOST_SAVED, Math.max(-MOST_OWED, this.#credit + SHARE - slow));
    this.#along = FORGET * this.#along + (by === "alongside" ? 1 : 0);
    this.#along_slow = FORGET * this.#along_slow + (by === "alongside" ? slow : 0);
  }

  /**
   * How tuning may run until the next inference is answered.
   * @returns {Way}
   */
  grant() {
    this.#way = this.#decide();
    return this.#way;
  }

  /** A slice that an inference waited for was taken. */
  taken() {
    this.#starved = 0;
  }

  /** @returns {Way} */
  #decide() {
    if (this.#p95_ms === null || this.#rest) return "";
    if (this.#starved >= STARVED) return "between";
    if (this.#alongsidePays()) return this.#credit >= (this.#way === "alongside" ? 0 : 1) ? "alongside" : "";
    if (this.#credit >= 1) return "between";
    return this.#credit >= 0 ? "gaps" : "";
  }

  /** Whether more is tuned for one slow inference alongside than in a slice; hopeful at first. */
  #alongsidePays() {
    if (!this.core_free) return false;
    const slow_share = (this.#along_slow + SHARE / 2) / (this.#along + 1);
    return this.#p50_ms / slow_share >= this.slice_ms;
  }

  #summarise() {
    const quiet = this.#reference();
    this.#p95_ms = quiet && quantile(quiet, 0.95);
    this.#p50_ms = quiet ? quantile(quiet, 0.5) : 0;
  }

  #reference() {
    const quiet = this.#quiet;
    const older = this.#older;
    if (quiet.length >= ENOUGH) return quiet;
    if (quiet.length < FEW || older.length < ENOUGH) return null;
    const scale = quantile(quiet, 0.5) / quantile(older, 0.5);
    return [...older.map((ms) => ms * scale), ...quiet];
  }
}
