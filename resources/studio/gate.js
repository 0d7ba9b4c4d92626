/**
 * The gate between tuning and a model that serves: words shared by the page and
 * its measuring worker. The worker looks at it whenever it reads its clock, and
 * that clock stands still while the gate is shut. So a measurement can be cut
 * into slices at the ends of its batches, and its times know nothing of it.
 */

const SLICE = 0; // SHUT, FREE, or open for so many ms
const BUSY = 1; // 1 from when the worker passes until it stands before the gate or is done
const WAITING = 2; // 1 while the worker stands before the shut gate
const NUMBER = 3; // of the slice
const SHUT = 0;
const FREE = -1;
const LINGER_MS = 15;

/** @typedef {Int32Array<SharedArrayBuffer>} Words */

/** The page's side: it never sleeps. */
export class Gate {
  words = /** @type {Words} */ (new Int32Array(new SharedArrayBuffer(16)));
  #open_ms = 0;
  #since = 0;

  /**
   * @param {() => number} now ms
   * @param {number} [linger_ms] what the host has in a slice to come with its next request
   */
  constructor(now, linger_ms = LINGER_MS) {
    this.now = now;
    this.linger_ms = linger_ms;
    this.free();
  }

  /** Whether the worker may pass now. */
  get open() {
    return Atomics.load(this.words, SLICE) !== SHUT;
  }

  /** Whether the worker stands before the gate. */
  get waiting() {
    return Atomics.load(this.words, WAITING) === 1;
  }

  /** Whether the worker works. */
  get busy() {
    return Atomics.load(this.words, BUSY) === 1;
  }

  /** Ms for which the gate has been open, or the worker busy behind it. */
  get open_ms() {
    return this.#open_ms + (this.#since ? this.now() - this.#since : 0);
  }

  /** Opens it until further notice. */
  free() {
    if (Atomics.load(this.words, SLICE) !== FREE) this.#set(FREE);
  }

  /** Shuts it; a worker that is busy behind it goes on to the end of its batch, which counts as open. */
  shut() {
    Atomics.store(this.words, SLICE, SHUT);
    const { async, value } = this.#while(1, Infinity);
    if (!async) this.#pause();
    else void Promise.resolve(value).then(() => this.open || this.#pause());
  }

  #pause() {
    if (this.#since) this.#open_ms += this.now() - this.#since;
    this.#since = 0;
  }

  /**
   * Lets the worker that waits pass for some ms, for one request or several; it
   * goes on to the end of its batch.
   * @param {number} slice_ms
   * @param {number} limit_ms then the page goes on, too
   * @returns {Promise<void>} when the slice is over, no longer wanted, or the worker is late
   */
  async slice(slice_ms, limit_ms) {
    const end = this.now() + limit_ms;
    Atomics.store(this.words, BUSY, 1); // before the worker wakes: only then it ends the wait below
    Atomics.add(this.words, NUMBER, 1);
    this.#set(Math.max(1, Math.round(slice_ms)));
    do await this.#while(1, end - this.now()).value;
    while (this.open && this.now() < end && (await this.#comes()));
    this.shut();
  }

  /** Whether the next request comes before the worker or the host's time ends the slice. */
  async #comes() {
    const { async, value } = this.#while(0, this.linger_ms);
    // The worker may have shut the gate, and told so, just before the wait began.
    return !async || (this.open && (await value) !== "timed-out");
  }

  /**
   * @param {0 | 1} busy
   * @param {number} limit_ms
   * @returns {{async: boolean, value: Promise<string> | string}}
   */
  #while(busy, limit_ms) {
    return /** @type {any} */ (Atomics).waitAsync(this.words, BUSY, busy, Math.max(0, limit_ms));
  }

  /** The worker is gone. */
  forget() {
    Atomics.store(this.words, WAITING, 0);
    Atomics.store(this.words, BUSY, 0);
    Atomics.notify(this.words, BUSY);
  }

  /** @param {number} slice */
  #set(slice) {
    this.#since ||= this.now();
    Atomics.store(this.words, SLICE, slice);
    Atomics.notify(this.words, SLICE);
  }
}

/** The measuring worker's side. */
export class Turnstile {
  #stood_ms = 0;
  #slice = -1;
  #end_ms = Infinity;

  /**
   * @param {Words} words of the gate
   * @param {() => number} clock ms
   */
  constructor(words, clock) {
    this.words = words;
    this.clock = clock;
  }

  /** Ms by a clock that stands still while the gate is shut; waits there when it is. */
  now() {
    const t = this.clock();
    const before = this.#stood_ms;
    if (!this.#passes(t)) {
      this.#stand();
      this.#stood_ms += this.clock() - t;
    }
    return t - before;
  }

  /** Before any work: waits until the gate is open. */
  enter() {
    if (this.#passes(this.clock())) this.#busy(1);
    else this.#stand();
  }

  /** After it. */
  leave() {
    this.#busy(0);
  }

  /** @param {0 | 1} busy */
  #busy(busy) {
    Atomics.store(this.words, BUSY, busy);
    Atomics.notify(this.words, BUSY);
  }

  /**
   * A slice begins when the worker first sees it, and the worker shuts the gate behind it.
   * @param {number} t
   */
  #passes(t) {
    const slice = Atomics.load(this.words, SLICE);
    if (slice === SHUT || slice === FREE) return slice === FREE;
    const number = Atomics.load(this.words, NUMBER);
    if (number !== this.#slice) [this.#slice, this.#end_ms] = [number, t + slice];
    if (t < this.#end_ms) return true;
    Atomics.compareExchange(this.words, SLICE, slice, SHUT);
    return false;
  }

  #stand() {
    Atomics.store(this.words, WAITING, 1);
    while (!this.#passes(this.clock())) {
      this.#busy(0); // also after a slice that was over before this thread had woken
      Atomics.wait(this.words, SLICE, SHUT);
    }
    Atomics.store(this.words, WAITING, 0);
    this.#busy(1);
  }
}
