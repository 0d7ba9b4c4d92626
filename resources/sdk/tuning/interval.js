/** Is one kernel faster than another? From pairs of times, looked at up to four times. */

/** Pairs after which a comparison may be settled. */
export const LOOKS = [2, 4, 8, 16];
/** Student's t by the degrees of freedom of each look: all of them together err in 5 % of cases (Bonferroni). */
const T = new Map([[1, 50.923], [3, 5.392], [5, 3.81], [9, 3.111]]);
/** Left out at each end: a visitor's machine does other things too. */
const TRIMMED = 0.2;
/** Few pairs may agree by luck: their spread counts as at least this share. */
const LEAST_NOISE = 0.005;

/** How many times as fast the challenger is, and the ends of the interval. @typedef {{speedup: number, low: number, high: number, pairs: number}} Speedup */

/**
 * @param {number[]} challenger_ms
 * @param {number[]} incumbent_ms entry i of both is one pair; as many as a look wants
 * @returns {Speedup}
 */
export function speedupOf(challenger_ms, incumbent_ms) {
  // Yuen's interval of a trimmed mean (Biometrika 61(1), 1974): the variance is that of the winsorized sample
  const logs = challenger_ms.map((ms, i) => Math.log(incumbent_ms[i] / ms)).sort((a, b) => a - b);
  const n = logs.length;
  const left = Math.floor(TRIMMED * n);
  const kept = logs.slice(left, n - left);
  const count = kept.length;
  const drawn = logs.map((x) => Math.min(kept[count - 1], Math.max(kept[0], x)));
  const mean = average(kept);
  const middle = average(drawn);
  const squares = drawn.reduce((sum, x) => sum + (x - middle) ** 2, 0);
  const error = Math.max(Math.sqrt(squares / (count - 1)), LEAST_NOISE) / Math.sqrt(count);
  const half = (T.get(count - 1) ?? Infinity) * error;
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

/** @param {number[]} all */
const average = (all) => all.reduce((a, b) => a + b, 0) / all.length;
