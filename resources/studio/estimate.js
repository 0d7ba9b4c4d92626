/** The one estimator of a time: `records/estimate.py` is the same in the Studio. */
import { median } from "../engine/quantile.js";

const CONFIDENCE = 0.95;

/** @typedef {{ms: number, low: number, high: number, count: number}} Estimate */

/**
 * The median with its interval by order statistics; the range where there are too few samples.
 * @param {number[]} samples_ms at least one, at most a thousand
 * @returns {Estimate}
 */
export function estimate(samples_ms) {
  const sorted = [...samples_ms].sort((a, b) => a - b);
  const n = sorted.length;
  let [outside, rank, term] = [0, 0, 0.5 ** n];
  while (outside + term <= (1 - CONFIDENCE) / 2) {
    outside += term;
    term *= (n - rank) / (rank + 1);
    rank++;
  }
  const place = Math.max(rank, 1);
  return { ms: median(samples_ms), low: sorted[place - 1], high: sorted[n - place], count: n };
}
