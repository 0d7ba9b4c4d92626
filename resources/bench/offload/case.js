/** Runs a case twice: the module as it is, and rewritten with a guard. */
import { openNative } from "../../engine/gpu/native/device.js";
import { randomBy } from "../../live/images.js";
import { instantiate as blocking } from "../../offload/blocking.js";
import { difference } from "../../offload/guard.js";
import { instantiate as suspending } from "../../offload/jspi.js";
import { bytesOf, elementAt, gather, placesOf } from "../../offload/memory.js";
import { parsePlan } from "../../offload/plan.js";
import { explained } from "../../offload/rounding.js";
import { faulty, KINDS } from "./faults.js";

/**
 * `fill`: regions of memory, in floats, that get random numbers; `lose`: the call before which the
 * device is lost; `always`: on the GPU whatever it costs; `slow`: calls of the original, 0 for all;
 * `varied`: memory of another kind at each call; `fault`: what the device does wrong (JSPI alone).
 * @typedef {{name: string, wasm: string, swapped: string, plan: string, entry: string, args: number[], fill: [number, number][],
 *   calls: number, always?: boolean, lose?: number, slow?: number, varied?: boolean, fault?: Fault | null}} Case
 */
/** @import { Guard } from "../../offload/guard.js" */
/** @import { Places } from "../../offload/memory.js" */
/** @import { Nest } from "../../offload/plan.js" */
/** @import { Fault } from "./faults.js" */
/** A nest that a call of the function came by. @typedef {{nest: Nest, places: Places}} Entered */
/** @typedef {{cases: Case[], mode: "jspi" | "blocking"}} Job */

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
function fill(memory, { fill: regions, varied }, call) {
  const kind = KINDS[varied ? call % KINDS.length : 0];
  regions.forEach(([offset, count], i) => {
    const random = randomBy(7919 * call + i + 1); // the same for the original
    const to = new Float32Array(memory.buffer, offset, count);
    for (let at = 0; at < count; at++) to[at] = kind(random);
  });
}

/**
 * @param {WebAssembly.Memory} ours @param {WebAssembly.Memory} theirs @param {Case} row @param {{terms: number, rounding: number}} nest
 * @param {(address: number, ours: number, theirs: number) => boolean} explains
 */
function differs(ours, theirs, { fill: regions }, nest, explains) {
  for (const [offset, count] of regions) {
    const wrong = difference(new Float32Array(ours.buffer, offset, count), new Float32Array(theirs.buffer, offset, count), nest, (i, a, b) => explains(offset + 4 * i, a, b));
    if (wrong) return `at ${offset}: ${wrong}`;
  }
  return "";
}

/** Notes the nests that are come by. @param {Guard} guard @returns {Entered[]} */
function watched(guard) {
  /** @type {Entered[]} */
  const entered = [];
  const enter = guard.enter.bind(guard);
  guard.enter = (number, args) => {
    const nest = guard.plan.nests[number];
    entered.push({ nest, places: placesOf(nest, args) });
    return enter(number, args);
  };
  return entered;
}

/**
 * Whether rounding explains what an address holds, of those that the nests wrote; sums that stay in
 * locals are those of the last region.
 * @param {Entered[]} entered @param {ArrayBufferLike} before the memory as they found it @param {Case} row
 * @returns {(address: number, ours: number, theirs: number) => boolean}
 */
function explaining(entered, before, { fill: regions }) {
  const known = entered.map(({ nest, places }) => ({ nest, places, inputs: gather(nest, places, before).map((bytes) => bytes.slice()) }));
  return (address, ours, theirs) =>
    known.some(({ nest, places, inputs }) => {
      let local = /** @type {[number, number]} */ (regions.at(-1))[0];
      return nest.outputs.some((output, i) => {
        const element = elementAt(output, output.result ? local : places.outputs[i], address);
        if (output.result) local += bytesOf(output);
        return element >= 0 && explained(nest, i, element, inputs, ours, theirs, false);
      });
    });
}

/** @type {Promise<import("../../types/gpu.js").GpuDevice> | null} */
let kept = null;

/** One device for many short cases: opening one takes a second on a software adapter. */
async function shared() {
  kept ??= openNative();
  const device = await kept;
  device.lost.then(() => (kept = null));
  return device;
}

/** @param {Case} row @param {Job["mode"]} mode @param {(name: string) => Promise<BufferSource>} file */
export async function run(row, mode, file) {
  const [original, swapped] = await Promise.all([row.wasm, row.swapped].map(async (name) => WebAssembly.compile(await file(name))));
  const plan = parsePlan(JSON.parse(new TextDecoder().decode(await file(row.plan))));
  const plain = await WebAssembly.instantiate(original, importsOf(original));
  const memory = /** @type {WebAssembly.Memory} */ (plain.exports.memory);
  const fault = row.fault;
  const open = fault ? async () => faulty(await openNative(), fault) : row.varied ? shared : undefined;
  const options = { always: row.always, open };
  const made = mode === "jspi" ? await suspending(swapped, importsOf(swapped), plan, [row.entry], options) : await blocking(swapped, importsOf(swapped), plan, options);
  const entered = watched(made.guard);
  const most = (/** @type {"terms" | "rounding"} */ name) => Math.max(...plan.nests.map((nest) => nest[name]));
  const nest = { terms: Math.max(1, most("terms")), rounding: Math.max(0, most("rounding")) };
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
    const explains = explaining(entered.splice(0), memory.buffer, row);
    const begin = performance.now();
    const theirs = /** @type {Function} */ (plain.exports[row.entry])(...row.args);
    found.original.push(performance.now() - begin);
    const wrong = differs(made.memory, memory, row, nest, explains) || (typeof ours === "number" && difference(Float32Array.of(ours), Float32Array.of(theirs), nest, () => false));
    if (wrong) found.wrong.push(`call ${call}: ${wrong}`);
  }
  const { counters, status, unable } = made.guard;
  if ("end" in made.runner) made.runner.end();
  else if (open !== shared) made.runner.gpu?.device.destroy();
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
