/** What the sessions of a page have in common: made once, and ended with the last that uses it. */

/**
 * @template T
 * @typedef {{value: Promise<T>, users: number, made?: T}} Entry `made` when it is there
 */
/**
 * @template T
 * @typedef {{value: Promise<T>, leave: () => void}} Share `leave` is called once
 */

/** @template T */
export class Common {
  /** @type {Map<string, Entry<T>>} */ #made = new Map();
  #end;
  #lost;

  /**
   * @param {(value: T) => void} [end]
   * @param {(value: T) => boolean} [lost] whether it is of no use any more
   */
  constructor(end = () => {}, lost = () => false) {
    this.#end = end;
    this.#lost = lost;
  }

  /**
   * @param {string} key
   * @param {() => Promise<T>} make
   * @returns {Share<T>}
   */
  take(key, make) {
    const old = this.#made.get(key);
    const found = old && !(old.made && this.#lost(old.made)) ? old : this.#start(key, make());
    found.users++;
    const leave = () => {
      if (--found.users) return;
      this.#forget(key, found);
      found.value.then(this.#end, () => {});
    };
    return { value: found.value, leave };
  }

  /** @param {string} key @param {Promise<T>} value @returns {Entry<T>} */
  #start(key, value) {
    /** @type {Entry<T>} */
    const entry = { value, users: 0 };
    this.#made.set(key, entry);
    // what failed is made again
    value.then((made) => (entry.made = made), () => this.#forget(key, entry));
    return entry;
  }

  /** @param {string} key @param {Entry<T>} entry */
  #forget(key, entry) {
    if (this.#made.get(key) === entry) this.#made.delete(key);
  }
}
