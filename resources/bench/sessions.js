/** Sessions of ours and of ONNX Runtime Web: the same few calls for both. */
import { InferenceSession, Tensor } from "../sdk/session.js";
import { loadOnnxRuntime } from "./page.js";

/** @typedef {{name: string, type?: string, dims: number[], data: any}} Input */
/**
 * @typedef {object} Opened
 * @property {any} session
 * @property {(inputs: Input[]) => Record<string, any>} feeds tensors of that library, by name
 * @property {number} threads that it really runs on
 * @property {string} [tier] of our kernels
 */

/** @param {any} Type */
const feedsOf = (Type) => (/** @type {Input[]} */ inputs) =>
  Object.fromEntries(inputs.map((i) => [i.name, new Type(i.type ?? "float32", i.data, i.dims)]));

/**
 * @param {string} manifest
 * @param {number} threads
 * @param {string} [provider] `wasm` or `webgpu`
 * @returns {Promise<Opened & {tier: string}>}
 */
export async function openOurs(manifest, threads, provider = "wasm") {
  const session = await InferenceSession.create(manifest, { executionProviders: [provider], numThreads: threads });
  if (session.threads !== threads) throw new Error(`The engine runs on ${session.threads} threads where ${threads} were asked for.`);
  return { session, feeds: feedsOf(Tensor), threads, tier: session.tier };
}

/** @type {Record<string, any>} dtypes of inputs that are given in another one, as no kernel has them */
const OWN = { float64: Float64Array, int16: Int16Array, uint16: Uint16Array, uint32: Uint32Array };

/** @type {Map<string, Promise<any>>} by the files of its package and modules in the place of its own */
const builds = new Map();
/** @type {any} the last one */
let loaded = null;

/**
 * @param {string} model
 * @param {number} threads
 * @param {{externalData?: {path: string, data: string}[], provider?: string, build?: string, kept?: string[],
 *   wasm?: string, profiled?: boolean}} [options] the files that
 *   hold weights of the model; `wasm` or `webgpu`; a file of the package; outputs that stay on the GPU; a module in the
 *   place of the package's own; whether its profiler runs
 * @returns {Promise<Opened>}
 */
export async function openOnnxRuntime(model, threads, { externalData = [], provider = "wasm", build = "ort.wasm.min.mjs", kept = [], wasm = "", profiled = false } = {}) {
  const found = builds.get(build + wasm) ?? loadOnnxRuntime(build, threads, wasm);
  builds.set(build + wasm, found);
  const ort = (loaded = await found);
  const session = await ort.InferenceSession.create(model, {
    executionProviders: [provider],
    graphOptimizationLevel: "all",
    enableProfiling: profiled,
    ...(externalData.length ? { externalData } : {}),
    ...(kept.length ? { preferredOutputLocation: Object.fromEntries(kept.map((name) => [name, "gpu-buffer"])) } : {}),
  });
  const types = new Map((session.inputMetadata ?? []).map((/** @type {any} */ m) => [m.name, m.type]));
  /** @param {Input} i */
  const widened = (i) => {
    const type = types.get(i.name);
    return type in OWN ? { ...i, type, data: OWN[type].from(i.data, Number) } : i;
  };
  return { session, feeds: (inputs) => feedsOf(ort.Tensor)(inputs.map(widened)), threads: ort.env.wasm.numThreads };
}

export const onnxRuntimeLoaded = () => loaded;
