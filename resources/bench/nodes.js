/**
 * Times of a model's nodes in ONNX Runtime Web, from its own profiler, which writes its events to the
 * console when it ends.
 */

import { median } from "./page.js";

/** @typedef {{name: string, op: string, ms: number}} Node */

const [WARMUP_MS, MEASURED_MS] = [400, 1000];
const [LEAST, MOST] = [5, 200];
/** Of events: nodes by the ends of their names, and whole runs. */
const [SUFFIX, RUN] = ["_kernel_time", "model_run"];

/** What is logged from now on; the library takes the console's function when it is loaded. */
export function catchLines() {
  /** @type {string[]} */
  const lines = [];
  console.log = (...said) => lines.push(said.join(" "));
  return lines;
}

/**
 * @param {any} session of ONNX Runtime Web, with its profiler on
 * @param {Record<string, any>} feeds
 * @param {string[]} lines that are caught
 * @returns {Promise<Node[]>}
 */
export async function nodeTimes(session, feeds, lines) {
  const run = async () => {
    for (const output of Object.values(await session.run(feeds))) output.dispose();
  };
  await repeat(run, WARMUP_MS, 1, Infinity);
  const runs = await repeat(run, MEASURED_MS, LEAST, MOST);
  session.endProfiling();
  return mediansOf(lines, runs);
}

/** @param {() => Promise<void>} run @param {number} ms @param {number} least @param {number} most */
async function repeat(run, ms, least, most) {
  const ends = performance.now() + ms;
  let runs = 0;
  while (runs < least || (runs < most && performance.now() < ends)) {
    await run();
    runs++;
  }
  return runs;
}

/**
 * Milliseconds of each node in one inference, medians; what a node runs several times, in a loop, is added up.
 * @param {string[]} lines of the profiler, one event each
 * @param {number} runs that count, the last ones
 * @returns {Node[]}
 */
export function mediansOf(lines, runs) {
  const events = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line.replace(/,\s*$/, "")));
  let left = events.filter(({ name }) => name === RUN).length - 1;
  /** @type {Map<string, {op: string, us: number[]}>} */
  const found = new Map();
  for (const { cat, name, dur, args } of events) {
    if (name === RUN) left--;
    if (cat !== "Node" || !name.endsWith(SUFFIX) || left >= runs) continue;
    const node = found.get(name) ?? { op: args.op_name, us: Array(runs).fill(0) };
    node.us[left] += dur;
    found.set(name, node);
  }
  return [...found].map(([name, { op, us }]) => ({ name: name.slice(0, -SUFFIX.length), op, ms: median(us) / 1000 }));
}
