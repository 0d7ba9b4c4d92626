/**
 * Times of a model's nodes in ONNX Runtime Web, from its own profiler, which writes its events to the
 * console when it ends.
 */

/** @typedef {{name: string, op: string, ms: number}} Node */

const [WARMUP_MS, MEASURED_MS] = [400, 1000];
const [LEAST, MOST] = [5, 200];
const SUFFIX = "_kernel_time";

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
  return meansOf(lines, runs);
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
 * Milliseconds of each node in one inference: the mean, because the clock's steps are as long as small nodes.
 * @param {string[]} lines of the profiler, one event each
 * @param {number} runs that count, the last ones
 * @returns {Node[]}
 */
export function meansOf(lines, runs) {
  const events = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line.replace(/,\s*$/, "")));
  const ends = events.flatMap(({ name }, i) => (name === "model_run" ? [i] : []));
  const first = ends.length > runs ? ends[ends.length - runs - 1] : 0;
  /** @type {Map<string, Node>} */
  const found = new Map();
  for (const { cat, name, dur, args } of events.slice(first)) {
    if (cat !== "Node" || !name.endsWith(SUFFIX)) continue;
    const node = found.get(name) ?? { name: name.slice(0, -SUFFIX.length), op: args.op_name, ms: 0 };
    node.ms += dur / 1000 / runs;
    found.set(name, node);
  }
  return [...found.values()];
}
