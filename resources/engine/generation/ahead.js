/** Tokens that a GPU makes one after another without being asked for each, brought back in groups. */
import { EngineError } from "../errors.js";

/** @import { Follower } from "../gpu/engine.js" */
/** @import { Choice } from "../gpu/generation/likeliest.js" */
/**
 * `margin` is the logit's lead over the second best. `ms` is since the token before; of tokens that a GPU
 * made together, each has its share.
 * @typedef {{id: number, ms: number, margin: number}} Token
 */
/** @typedef {{choices: Choice[], ms: number}} Arrived `ms` of each */

/** Groups that are queued while one is waited for: the GPU never waits for the page. */
const QUEUED = 2;
/** How long a group may take: a text that ends early has made two groups in vain, and a reader sees no jumps. */
const GROUP_MS = 24;
/** Tokens of the first groups, whose time is not known yet. */
const FIRST = 2;

export class Ahead {
  #follower;
  #place;
  #left;
  #count = FIRST;
  #first = true;
  #end = 0;
  /** @type {Token[]} */ #tokens = [];
  /** @type {Promise<Arrived>[]} */ #groups = [];

  /**
   * @param {Follower} follower
   * @param {(id: number) => void} place writes the inputs of the next step
   * @param {number} most steps
   */
  constructor(follower, place, most) {
    this.#follower = follower;
    this.#place = place;
    this.#left = most;
  }

  /** @param {number} id the token before, which only the first step is given @returns {Promise<Token>} */
  async next(id) {
    if (!this.#tokens.length) {
      await this.#queue(id);
      const { choices, ms } = await /** @type {Promise<Arrived>} */ (this.#groups.shift());
      await this.#queue(id); // before anyone looks at what came
      this.#tokens = choices.map((choice) => ({ ...choice, ms }));
      this.#count = Math.max(1, Math.min(this.#follower.most, 2 * this.#count, Math.floor(GROUP_MS / ms)));
    }
    const token = /** @type {Token} */ (this.#tokens.shift());
    if (Number.isNaN(token.margin)) throw new EngineError("The model's logits are not numbers.", "Compare it with its native runtime: nnjit generate --check.");
    return token;
  }

  /** What was queued runs to its end. */
  close() {
    this.#follower.close();
  }

  /** @param {number} id of the first step of all */
  async #queue(id) {
    while (this.#groups.length < QUEUED && this.#left > 0) {
      const count = Math.min(this.#count, this.#left);
      const begin = performance.now();
      this.#left -= count;
      for (let i = 0; i < count; i++) {
        this.#place(id);
        await this.#follower.step(i, this.#first);
        this.#first = false;
      }
      const last = this.#left === 0; // nothing is queued behind it, so somebody may ask whether it has come
      const group = this.#follower.read(count, last).then((choices) => {
        const now = performance.now();
        const ms = (now - Math.max(begin, this.#end)) / count;
        this.#end = now;
        return { choices, ms };
      });
      group.catch(() => {}); // of a text that ended before
      this.#groups.push(group);
    }
  }
}
