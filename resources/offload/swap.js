/** Puts a guard into the table of a rewritten module. */
import { RUN } from "./guard.js";
import { TABLE } from "./plan.js";

/** @import { Guard, Job } from "./guard.js" */
/**
 * Runs jobs while the module waits.
 * @typedef {object} Runner
 * @property {() => string} unable why the module cannot wait just now, empty where it can
 * @property {(job: Job) => number | Promise<number>} run the guard's answer
 */

const WAIT = 3;

/**
 * @param {WebAssembly.Instance} instance of a rewritten module
 * @param {Guard} guard
 * @param {Runner} runner
 * @param {(wait: () => number | Promise<number>) => any} [waiting] what `wait` is imported as
 */
export function bind(instance, guard, runner, waiting = (wait) => wait) {
  const table = instance.exports[TABLE];
  if (!(table instanceof WebAssembly.Table)) throw new Error(`The module exports no table ${TABLE}: write it with nnjit offload.`);
  /** @type {Job | null} */
  let asked = null;
  /** @type {Record<string, any>} */
  const nnjit = { wait: waiting(() => runner.run(/** @type {Job} */ (asked))), result: (/** @type {number} */ i) => guard.result(i) };
  guard.plan.nests.forEach((_, number) => {
    nnjit[`enter${number}`] = (/** @type {number[]} */ ...args) => {
      const { mode, job } = guard.enter(number, args);
      if (!job) return mode;
      const why = runner.unable();
      if (why) {
        guard.counters.fell(why);
        return RUN;
      }
      asked = job;
      return WAIT;
    };
    nnjit[`leave${number}`] = (/** @type {number[]} */ ...results) => guard.leave(number, results);
  });
  const bytes = Uint8Array.from(atob(guard.plan.hooks), (c) => c.charCodeAt(0));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { nnjit });
  for (const [slot, hook] of Object.entries(exports)) table.set(Number(slot), hook);
}
