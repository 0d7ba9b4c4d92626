/** How a token is chosen of logits: greedy, or drawn of the likeliest by a seed. */
import { EngineError } from "../errors.js";

/** @typedef {{topK?: number, topP?: number, temperature?: number, seed?: number, repetitionPenalty?: number}} Options of the choice */

/**
 * How the next token follows from logits.
 * @param {Options} options
 * @param {readonly number[]} [prompt] tokens that the text begins with
 * @returns {(logits: Float32Array) => {id: number, margin: number}}
 */
export function sampler({ topK = 1, topP = 1, temperature = 1, seed = 0, repetitionPenalty = 1 }, prompt = []) {
  if (!(Number.isInteger(topK) && topK >= 1)) throw new EngineError(`topK is ${topK}.`, "Use 1 for greedy, or more to draw.");
  if (!(topP > 0 && topP <= 1)) throw new EngineError(`topP is ${topP}.`, "Use a number above 0, at most 1.");
  if (!(repetitionPenalty > 0 && repetitionPenalty < Infinity)) throw new EngineError(`The repetition penalty is ${repetitionPenalty}.`, "Use 1 for none.");
  if (!(temperature > 0 && temperature < Infinity)) throw new EngineError(`The temperature is ${temperature}.`, "Use a number above 0.");
  if (!Number.isSafeInteger(seed)) throw new EngineError(`The seed is ${seed}.`, "Use a whole number.");
  const random = randomNumbers(seed);
  const said = new Set(prompt);
  return (given) => {
    const logits = repetitionPenalty === 1 ? given : penalised(given, said, repetitionPenalty);
    const best = largest(logits, Math.min(Math.max(topK, 2), logits.length));
    const lead = best.length > 1 ? logits[best[0]] - logits[best[1]] : Infinity;
    if (Number.isNaN(lead)) throw new EngineError("The model's logits are not numbers.", "Compare it with its native runtime: nnjit generate --check.");
    const id = topK === 1 ? best[0] : draw(best.slice(0, topK), logits, { temperature, topP, at: random() });
    said.add(id);
    return { id, margin: lead };
  };
}

/**
 * A copy of logits in which tokens of the text are less likely.
 * @param {Float32Array} logits @param {Set<number>} said @param {number} penalty
 */
function penalised(logits, said, penalty) {
  const changed = logits.slice();
  for (const id of said) changed[id] = changed[id] > 0 ? changed[id] / penalty : changed[id] * penalty;
  return changed;
}

/**
 * Indices of the k largest, the largest first; of equal ones the lower index first.
 * @param {Float32Array} values
 * @param {number} k
 */
function largest(values, k) {
  /** @type {number[]} */
  const best = [];
  let least = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // written so that what is no number comes in, and is found by the caller
    if (best.length === k && value <= least) continue;
    let at = best.length === k ? k - 1 : best.length;
    for (; at > 0 && !(values[best[at - 1]] >= value); at--) best[at] = best[at - 1];
    best[at] = i;
    least = values[best[best.length - 1]];
  }
  return best;
}

/**
 * One of the candidates, each with the weight of its softmax.
 * @param {number[]} candidates the likeliest first
 * @param {Float32Array} logits
 * @param {{temperature: number, topP: number, at: number}} how `at` is in [0, 1)
 */
function draw(candidates, logits, { temperature, topP, at }) {
  const weights = candidates.map((i) => Math.exp((logits[i] - logits[candidates[0]]) / temperature));
  if (topP < 1) {
    let left = topP * weights.reduce((a, b) => a + b, 0);
    const enough = weights.findIndex((weight) => (left -= weight) <= 0);
    if (enough >= 0) weights.length = enough + 1;
  }
  let left = at * weights.reduce((a, b) => a + b, 0);
  const found = weights.findIndex((weight) => (left -= weight) < 0);
  return candidates[Math.max(found, 0)];
}

/**
 * Numbers in [0, 1): a Weyl sequence through a 32-bit mixer (splitmix32).
 * @param {number} seed
 */
function randomNumbers(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let t = state ^ (state >>> 16);
    t = Math.imul(t, 0x21f0aaad);
    t ^= t >>> 15;
    t = Math.imul(t, 0x735a2d97);
    return ((t ^ (t >>> 15)) >>> 0) / 2 ** 32;
  };
}
