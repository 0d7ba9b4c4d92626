/** Loops of a plan: one body, bound once, whose registers have another place in each of its runs. */
import { EngineError } from "../errors.js";

/** @import { Bound, Loop, Loops, Plan } from "../../types/engine.js" */

/** In place of a buffer that a loop does not have. */
const NOWHERE = -1;
/** Of a loop that has neither a count from sizes nor one of its own. */
const MOST_TRIPS = 2 ** 20;

/**
 * The loop as one step.
 * @param {Loop} loop
 * @param {{plan: Plan, memory: WebAssembly.Memory, addresses: number[]}} loaded
 * @param {() => void} body runs all its steps
 * @param {Bound[]} bound what those steps read and write
 * @param {string} node its name
 * @returns {() => void}
 */
function bindLoop(loop, { plan, memory, addresses }, body, bound, node) {
  const { carried, rows, copies, going, number, count } = loop;
  const nbytes = plan.buffers.map((b) => b.nbytes);
  const places = new Map([...carried.flatMap(({ read, written }) => [read, written]), ...rows.map(({ row }) => row)].map((r) => [r, uses(r, bound)]));
  const at = [...addresses];
  const put = (/** @type {number} */ register, /** @type {number} */ address) => {
    at[register] = address;
    for (const { pointers, i } of /** @type {{pointers: number[], i: number}[]} */ (places.get(register))) pointers[i] = address;
  };
  return () => {
    const all = new Uint8Array(memory.buffer); // made anew: the memory may have grown
    const words = new Int32Array(memory.buffer);
    const copy = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ n) => all.copyWithin(to, from, from + n);
    const trips = count === NOWHERE ? loop.trips : given(all.slice(at[count], at[count] + 8), node);
    if (trips > MOST_TRIPS) throw tooMany(node, trips);
    for (const { start, last, other } of carried) {
      const to = at[trips % 2 ? other : last];
      fill(all.subarray(to, to + nbytes[last]), all.subarray(at[start], at[start] + Math.min(nbytes[start], nbytes[last])));
    }
    let done = 0;
    for (; done < trips; done++) {
      const odd = (trips - done) % 2;
      for (let c = 0; c < carried.length; c++) {
        const { read, written, last, other } = carried[c];
        put(read, at[odd ? other : last]);
        put(written, at[odd ? last : other]);
      }
      if (going && !all[at[carried[0].read]]) break;
      for (let r = 0; r < rows.length; r++) {
        const { whole, row, backward } = rows[r];
        put(row, at[whole] + (backward ? trips - 1 - done : done) * nbytes[row]);
      }
      words[at[number] / 4] = done;
      words[at[number] / 4 + 1] = 0;
      body();
      for (let c = 0; c < copies.length; c++) copy(at[copies[c][0]], at[copies[c][1]], nbytes[copies[c][1]]);
    }
    if (going && done === MOST_TRIPS) throw tooMany(node, done + 1);
    if ((trips - done) % 2) for (const { last, other } of carried) copy(at[other], at[last], nbytes[last]);
  };
}

/** Where a buffer's address stands. @param {number} buffer @param {Bound[]} bound */
function uses(buffer, bound) {
  return bound.flatMap(({ args, pointers }) => args.flatMap((a, i) => (a === buffer ? pointers.map((each) => ({ pointers: each, i })) : [])));
}

/** The number of runs that a tensor says. @param {Uint8Array} bytes @param {string} node */
function given(bytes, node) {
  const [count] = new BigInt64Array(bytes.buffer);
  if (count < 0n) throw new EngineError(`The loop ${node} is to run ${count} times.`, "Give a count of 0 or more.");
  return Number(count);
}

/** @param {string} node @param {number} count */
const tooMany = (node, count) => new EngineError(`The loop ${node} is to run ${count} times, at most ${MOST_TRIPS} are run.`, "Give a smaller count.");

/** Repeats what is smaller. @param {Uint8Array} target @param {Uint8Array} source */
function fill(target, source) {
  target.set(source);
  for (let n = source.length; n && n < target.length; n *= 2) target.copyWithin(n, 0, n); // ends where the target does
}

/**
 * Refuses a loop that would read or write outside its buffers.
 * @param {Loop | undefined} loop
 * @param {Plan} plan
 * @param {string} node
 */
function checkLoop(loop, { buffers }, node) {
  if (!loop) throw new EngineError(`The loop ${node} of the plan does not say what it repeats.`);
  const { trips, count, number, carried, rows, copies } = loop;
  const size = (/** @type {number} */ b) => buffers[b]?.nbytes ?? -1;
  const register = (/** @type {number} */ b) => buffers[b]?.region === "row";
  const writable = (/** @type {number} */ b) => buffers[b]?.region === "arena";
  const fits =
    Number.isInteger(trips) && trips >= 0 && trips <= MOST_TRIPS &&
    (count === NOWHERE || size(count) >= 8) && writable(number) && size(number) >= 8 &&
    carried.every(({ start, read, written, last, other }) =>
      register(read) && register(written) && writable(last) && writable(other) && size(start) > 0 &&
      [read, written, other].every((b) => size(b) === size(last))) &&
    rows.every(({ whole, row }) => register(row) && count === NOWHERE && size(row) >= 0 && trips * size(row) <= size(whole)) &&
    copies.every(([from, to]) => size(to) >= 0 && size(from) >= size(to) && buffers[to].region !== "weight"); // prettier-ignore
  if (!fits) throw new EngineError(`The loop ${node} of the plan does not fit into its buffers.`);
}

/** Of plans for any size: no other plan has loops. @type {Loops} */
export const LOOPS = { bindLoop, checkLoop };
