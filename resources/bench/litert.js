/** A .tflite file in LiteRT.js, called like the sessions of the others. */
import { importWith, NODE_MODULES } from "./page.js";

/** @import { Input, Opened } from "./sessions.js" */
/** @typedef {{name: string, dims: number[]}} Port */
/** @typedef {{name: string, shape: ArrayLike<number>, dtype: string}} Detail */

/** @type {Promise<any> | undefined} */
let loading;

/** The library, loaded once in a page. @param {number} threads */
export const loadLiteRt = (threads) => (loading ??= load(threads));

/** @param {number} threads */
async function load(threads) {
  const litert = await importWith("@litertjs/core/dist/index.js", "@litertjs/wasm-utils", "@litertjs/wasm-utils/dist/index.js");
  await litert.loadLiteRt(`${NODE_MODULES}@litertjs/core/wasm/`, { threads: threads > 1 });
  return litert;
}

/** @param {string} model address of the file @param {number} threads */
export async function compiled(model, threads) {
  const litert = await loadLiteRt(threads);
  return { litert, program: await litert.loadAndCompile(model, { accelerator: "wasm", cpuOptions: { numThreads: threads } }) };
}

/**
 * One call on new numbers, for which LiteRT.js's documentation makes tensors: a copy into its
 * memory, as it is part of a run of ours and of ONNX Runtime's.
 * @param {any} litert
 * @param {any} program
 * @param {[data: any, dims: readonly number[]][]} inputs
 * @returns {Promise<any[]>} its results, still to be deleted
 */
export async function callOn(litert, program, inputs) {
  const tensors = inputs.map(([data, dims]) => new litert.Tensor(data, dims));
  const results = await program.run(tensors);
  for (const tensor of tensors) tensor.delete();
  return results;
}

/**
 * @param {string} model address of the .tflite file
 * @param {number} threads
 * @param {Port[]} outputs names and sizes that the .onnx file has
 * @returns {Promise<Opened>}
 */
export async function openLiteRt(model, threads, outputs) {
  const { litert, program } = await compiled(model, threads);
  const wanted = program.getInputDetails();
  const places = pairs(program.getOutputDetails(), outputs, "output");
  const run = async (/** @type {Record<string, any>} */ feeds) => {
    const results = await callOn(litert, program, wanted.map((/** @type {Detail} */ detail) => feeds[detail.name]));
    const named = outputs.map(async ({ name }, i) => [name, { data: await results[places[i]].data(), dispose: () => results[places[i]].delete() }]);
    return Object.fromEntries(await Promise.all(named));
  };
  const feeds = (/** @type {Input[]} */ inputs) => {
    const order = pairs(wanted, inputs, "input");
    return Object.fromEntries(inputs.map((input, i) => [wanted[order[i]].name, [numbers(input, wanted[order[i]]), input.dims]]));
  };
  return { session: { run, release: () => program.delete() }, feeds, threads };
}

/** Converters narrow indices to 32 bits. @param {Input} input @param {Detail} detail */
const numbers = ({ data }, { dtype }) => (dtype === "int32" && data instanceof BigInt64Array ? Int32Array.from(data, Number) : data);

/**
 * Where each port of the .onnx file stands in the .tflite file: by its name, which converters put
 * other words around, else the first one left of its sizes.
 * @param {Detail[]} details
 * @param {Port[]} ports
 * @param {"input" | "output"} what
 * @returns {number[]}
 */
export function pairs(details, ports, what) {
  /** @type {Set<number>} */
  const taken = new Set();
  const alike = (/** @type {Detail} */ { shape }, /** @type {Port} */ { dims }) => dims.join() === Array.from(shape).join();
  const named = (/** @type {Detail} */ detail, /** @type {Port} */ { name }) => detail.name.split(/[:/]/).some((word) => word === name || word === `serving_default_${name}`);
  return ports.map((port) => {
    const free = details.map((_, i) => i).filter((i) => !taken.has(i) && alike(details[i], port));
    const found = free.find((i) => named(details[i], port)) ?? free[0];
    if (found === undefined) throw new Error(`The .tflite file has no ${what} of ${port.dims.join("x")} for ${port.name}: convert the .onnx file again, with its layout kept.`);
    taken.add(found);
    return found;
  });
}
