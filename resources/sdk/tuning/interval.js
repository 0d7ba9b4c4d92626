/** Is one kernel faster than another? From pairs of times, looked at up to four times. */

/** Pairs after which a comparison may be settled. */
export const LOOKS = [2, 4, 8, 16];
/** Student's t by the degrees of freedom of each look: all of them together err in 5 % of cases (Bonferroni). */
const T = new Map([[1, 50.923], [3, 5.392], [7, 3.335], [15, 2.837]]);
/** Few pairs may agree by luck: their spread counts as at least this share. */
const LEAST_NOISE = 0.005;

/** How many times as fast the challenger is, and the ends of the interval. @typedef {{speedup: number, low: number, high: number, pairs: number}} Speedup */

/**
 * @param {number[]} challenger_ms
 * @param {number[]} incumbent_ms entry i of both is one pair; as many as a look wants
 * @returns {Speedup}
 */
export function speedupOf(challenger_ms, incumbent_ms) {
  const logs = challenger_ms.map((ms, i) => Math.log(incumbent_ms[i] / ms));
  const n = logs.length;
  const mean = logs.reduce((a, b) => a + b, 0) / n;
  const spread = Math.sqrt(logs.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (n - 1));
  const half = ((T.get(n - 1) ?? Infinity) * Math.max(spread, LEAST_NOISE)) / Math.sqrt(n);
  const [low, high] = [mean - half, mean + half].map((x) => Math.exp(Math.min(7, Math.max(-7, x))));
  return { speedup: Math.exp(mean), low, high, pairs: n };
}

/**
 * @param {Speedup} found
 * @param {number} least the smallest speed-up that is worth it
 * @returns {"faster" | "slower" | "not told apart" | ""} empty: more pairs may tell
 */
export function settled({ speedup, low, high, pairs }, least) {
  if (low > 1 && speedup >= least) return "faster";
  if (high < least) return high < 1 ? "slower" : "not told apart";
  return pairs >= LOOKS[LOOKS.length - 1] ? "not told apart" : "";
}
