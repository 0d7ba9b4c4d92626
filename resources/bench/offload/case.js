/** Runs a case twice: the module as it is, and rewritten with a guard. */
import { randomBy } from "../../live/images.js";
import { instantiate as blocking } from "../../offload/blocking.js";
import { difference } from "../../offload/guard.js";
import { instantiate as suspending } from "../../offload/jspi.js";
import { parsePlan } from "../../offload/plan.js";

/**
 * `fill`: regions of memory, in floats, that get random numbers; `lose`: the call before which the
 * device is lost; `always`: on the GPU whatever it costs; `slow`: calls of the original, 0 for all.
 * @typedef {{name: string, wasm: string, swapped: string, plan: string, entry: string, args: number[], fill: [number, number][],
 *   calls: number, always?: boolean, lose?: number, slow?: number}} Case
 */
/** @typedef {{cases: Case[], mode: "jspi" | "blocking"}} Job */

/** Numbers between -1 and 1, the same for a seed. @param {Float32Array} to @param {number} seed */
function randomise(to, seed) {
  const random = randomBy(seed);
  for (let i = 0; i < to.length; i++) to[i] = 2 * random() - 1;
}

/** What a module may import: functions that do nothing, and memory. @param {WebAssembly.Module} module */
function importsOf(module) {
  /** @type {Record<string, Record<string, any>>} */
  const imports = {};
  for (const { module: space, name, kind } of WebAssembly.Module.imports(module)) {
    if (kind !== "function") throw new Error(`The module imports a ${kind}, ${space}.${name}.`);
    (imports[space] ??= {})[name] = () => 0;
  }
  return imports;
}

/** @param {WebAssembly.Memory} memory @param {Case} row @param {number} call */
function fill(memory, { fill: regions }, call) {
  regions.forEach(([offset, count], i) => randomise(new Float32Array(memory.buffer, offset, count), 7919 * call + i + 1));
}

/** @param {WebAssembly.Memory} ours @param {WebAssembly.Memory} theirs @param {Case} row @param {number} terms */
function differs(ours, theirs, { fill: regions }, terms) {
  for (const [offset, count] of regions) {
    const wrong = difference(new Float32Array(ours.buffer, offset, count), new Float32Array(theirs.buffer, offset, count), terms);
    if (wrong) return `at ${offset}: ${wrong}`;
  }
  return "";
}

/** @param {Case} row @param {Job["mode"]} mode @param {(name: string) => Promise<BufferSource>} file */
export async function run(row, mode, file) {
  const [original, swapped] = await Promise.all([row.wasm, row.swapped].map(async (name) => WebAssembly.compile(await file(name))));
  const plan = parsePlan(JSON.parse(new TextDecoder().decode(await file(row.plan))));
  const plain = await WebAssembly.instantiate(original, importsOf(original));
  const memory = /** @type {WebAssembly.Memory} */ (plain.exports.memory);
  const options = { always: row.always };
  const made = mode === "jspi" ? await suspending(swapped, importsOf(swapped), plan, [row.entry], options) : await blocking(swapped, importsOf(swapped), plan, options);
  const terms = Math.max(1, ...plan.nests.map((nest) => nest.terms));
  /** @type {{original: number[], swapped: number[], wrong: string[], ran: number[]}} */
  const found = { original: [], swapped: [], wrong: [], ran: [] };
  let last = 0;
  for (let call = 0; call < row.calls; call++) {
    if (call === row.lose) await lose(made.runner);
    fill(made.memory, row, call);
    const start = performance.now();
    const ours = await made.exports[row.entry](...row.args);
    found.swapped.push(performance.now() - start);
    found.ran.push(made.guard.counters.success - last);
    last = made.guard.counters.success;
    if (row.slow && call >= row.slow) continue;
    fill(memory, row, call);
    const begin = performance.now();
    const theirs = /** @type {Function} */ (plain.exports[row.entry])(...row.args);
    found.original.push(performance.now() - begin);
    const wrong = differs(made.memory, memory, row, terms) || (typeof ours === "number" && difference(Float32Array.of(ours), Float32Array.of(theirs), terms));
    if (wrong) found.wrong.push(`call ${call}: ${wrong}`);
  }
  const { counters, status, unable } = made.guard;
  if ("end" in made.runner) made.runner.end();
  else made.runner.gpu?.device.destroy();
  const told = status.map(({ loopMs, gpuMs, ...rest }) => ({ ...rest, loopMs: finite(loopMs), gpuMs: finite(gpuMs) }));
  return { name: row.name, mode, ...found, status: told, unable, counters: counters.json(), metrics: counters.text() };
}

const finite = (/** @type {number} */ ms) => (Number.isFinite(ms) ? ms : null);

/** @param {any} runner */
async function lose(runner) {
  if (runner.gpu) runner.gpu.device.lose();
  else runner.lose();
  await new Promise((resolve) => setTimeout(resolve, 50));
}
