/** Time as a test says: nothing here hangs on how fast or how busy the machine is. */

export class OwnClock {
  ms = 0;
  /** @param {number} step_ms by which each look moves it */
  constructor(step_ms = 0) {
    this.step_ms = step_ms;
  }
  now = () => (this.ms += this.step_ms);
  /** Takes so many ms. @param {number} ms */
  spend = (ms) => void (this.ms += ms);

  /**
   * Gives the time of this whole process until the test has ended.
   * @param {import("node:test").TestContext} t
   */
  rule(t) {
    t.mock.method(performance, "now", this.now);
    return this;
  }

  /**
   * Lets kernels that are linked from now on take so much of this clock's time for an iteration.
   * @param {import("node:test").TestContext} t
   * @param {number} iteration_ms
   */
  timeKernels(t, iteration_ms) {
    const link = WebAssembly.instantiate;
    t.mock.method(WebAssembly, "instantiate", async (/** @type {any} */ what, /** @type {any} */ imports) => {
      const made = /** @type {any} */ (await link(what, imports));
      const { run } = (made.instance ?? made).exports;
      const timed = (/** @type {number[]} */ ...args) => {
        run(...args);
        this.spend(iteration_ms * (args[args.length - 1] - args[args.length - 2]));
      };
      const exports = { run: Object.defineProperty(timed, "length", { value: run.length }) };
      return made.instance ? { instance: { exports } } : { exports };
    });
    return this;
  }
}
