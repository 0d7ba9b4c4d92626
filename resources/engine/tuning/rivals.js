/** The kernels that stay bound, checked and warm from one measurement to the next. */

/** @import { Check, Kernel } from "./measured.js" */

/**
 * @template {{drop: () => void}} Bound a kernel on the fixture
 * @template {Check} Facts
 */
export class Rivals {
  /** @type {{sha256: string, bound: Bound, check: Facts, right: boolean} | null} the last challenger */ #last = null;
  /** @type {Map<string, Bound>} by sha256 */ #incumbents = new Map();
  /** @type {Bound[]} incumbents, those without a sha256 too */ #kept = [];

  /**
   * The challenger of the measurement before as it is, another one when it was checked.
   * @param {Kernel} kernel
   * @param {Kernel | null} incumbent
   * @param {() => Promise<{bound: Bound, check: Facts, right: boolean}>} check
   */
  async challenger({ header: { sha256 = "" } }, incumbent, check) {
    if (!sha256 || sha256 !== this.#last?.sha256) {
      this.retire(incumbent);
      this.#last = { sha256, ...(await check()) };
    }
    return this.#last;
  }

  /** @param {Kernel} kernel @param {() => Promise<Bound>} bind */
  async incumbent({ header: { sha256 = "" } }, bind) {
    return this.#incumbents.get(sha256) ?? this.#keep(sha256, await bind());
  }

  /**
   * The last challenger makes room; if it is the incumbent now, it stays warm.
   * @param {Kernel | null} incumbent
   */
  retire(incumbent) {
    const last = this.#last;
    this.#last = null;
    if (!last) return;
    if (last.right && last.sha256 && last.sha256 === incumbent?.header.sha256) this.#keep(last.sha256, last.bound);
    else last.bound.drop();
  }

  /** The fixture goes, and all that is bound to it. */
  clear() {
    this.retire(null);
    for (const bound of this.#kept.splice(0)) bound.drop();
    this.#incumbents.clear();
  }

  /** @param {string} sha256 @param {Bound} bound */
  #keep(sha256, bound) {
    this.#kept.push(bound);
    if (sha256) this.#incumbents.set(sha256, bound);
    return bound;
  }
}
