/** Ordinary inferences of a session: timed, and every answer looked at. */
import { ORIGINAL } from "./layout.js";

/** @import { Live } from "./install.js" */
/**
 * @typedef {object} Checked
 * @property {number} runs
 * @property {number} wrong answers that a kernel must not give
 * @property {number} worst largest difference from the plain module's answer, as a share of its largest number
 * @property {number} ms of the last one
 */
/** @typedef {Record<string, any>} Answer typed arrays by the names of outputs */

/** How far kernels that round differently may carry an answer: a share of its largest number. */
const TOLERANCE = 1e-4;

/** @param {Answer} a @param {Answer} b */
const same = (a, b) => Object.keys(a).every((name) => a[name].every((/** @type {any} */ x, /** @type {number} */ i) => Object.is(x, b[name][i])));

/** @param {Answer} reference @param {Answer} answer @returns {number} NaN where one is NaN and the other not */
function distance(reference, answer) {
  let worst = 0;
  for (const name of Object.keys(reference)) {
    const [expected, got] = [reference[name], answer[name]];
    let largest = Number.MIN_VALUE;
    let gap = 0;
    for (let i = 0; i < expected.length; i++) {
      if (Object.is(expected[i], got[i])) continue;
      gap = Math.max(gap, Math.abs(Number(expected[i]) - Number(got[i])));
    }
    if (gap > 0) for (const x of expected) largest = Math.max(largest, Math.abs(Number(x)));
    worst = Math.max(worst, gap / largest);
  }
  return worst;
}

export class Inferences {
  /** @type {Map<number, Answer>} first answers of each slot */
  #answers = new Map();
  /** @type {Map<number, boolean>} whether a slot's kernels are bit-identical to the originals */
  #exact = new Map([[ORIGINAL, true]]);
  /** @type {Checked} */
  checked = { runs: 0, wrong: 0, worst: 0, ms: 0 };

  /** @param {Live} live @param {any} session @param {Record<string, any>} feeds */
  constructor(live, session, feeds) {
    this.live = live;
    this.session = session;
    this.feeds = feeds;
  }

  /** @param {number} slot @param {boolean} exact */
  expect(slot, exact) {
    this.#exact.set(slot, exact);
  }

  /** One inference with the kernels of a slot. @param {number} slot @returns {Promise<number>} ms */
  async run(slot) {
    this.live.choose(slot);
    const start = performance.now();
    const outputs = await this.session.run(this.feeds);
    const ms = performance.now() - start;
    this.checked.ms = ms;
    this.#check(slot, outputs);
    return ms;
  }

  /** @param {number} slot @param {Record<string, any>} outputs */
  #check(slot, outputs) {
    const answer = Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, tensor.data]));
    const plain = this.#answers.get(ORIGINAL);
    const first = this.#answers.get(this.#exact.get(slot) ? ORIGINAL : slot);
    const far = plain && !this.#exact.get(slot) && !first ? distance(plain, answer) : 0;
    this.checked.runs++;
    this.checked.worst = Math.max(this.checked.worst, far);
    if (!(far <= TOLERANCE) || (first && !same(first, answer))) this.checked.wrong++;
    if (!first) this.#answers.set(slot, Object.fromEntries(Object.entries(answer).map(([name, data]) => [name, data.slice()])));
    for (const tensor of Object.values(outputs)) tensor.dispose?.();
  }
}
