/**
 * In place of onnxruntime-web: its own API package, with bundles as the files that run.
 *
 *     import * as ort from "@nnjit/runtime/ort";
 *     const session = await ort.InferenceSession.create("models/minilm.onnx"); // models/minilm/manifest.json
 */
import { env as ort_env, registerBackend, Tensor as OrtTensor } from "onnxruntime-common";
import { EngineError } from "../engine/errors.js";
import { env, InferenceSession, Tensor } from "./index.js";
import { addressIn } from "./pointer.js";

export * from "onnxruntime-common";

/** @import { Backend, InferenceSession as Ort, InferenceSessionHandler } from "onnxruntime-common" */

/** Of its options, the one that we have not. */
const NO_PROFILING = "Sessions of @nnjit/runtime have a method profile() instead.";

/**
 * The bundle of a model: `minilm.onnx` is looked for in `minilm/manifest.json`.
 * @param {string} address
 */
const manifestOf = (address) => (/\.(onnx|ort)$/.test(address) ? address.replace(/\.(onnx|ort)$/, "/manifest.json") : address);

/** @type {Backend} */
const backend = {
  async init() {},
  async createInferenceSessionHandler(source, options = {}) {
    const address = typeof source === "string" ? source : addressIn(source);
    if (!address)
      throw new EngineError("A model in memory cannot be opened: kernels are compiled when a bundle is exported.", "Give the address of the bundle.");
    const { numThreads, proxy } = ort_env.wasm;
    env.wasm.proxy = proxy ?? false;
    const executionProviders = options.executionProviders?.map((p) => (typeof p === "string" ? p : p.name)).filter((name) => name === "webgpu" || name === "wasm");
    return handler(await InferenceSession.create(manifestOf(address), { numThreads: numThreads ?? 0, ...(executionProviders?.length ? { executionProviders } : {}) }));
  },
};
for (const name of ["wasm", "webgpu", "cpu"]) registerBackend(name, backend, 10);

/**
 * @param {import("./index.js").Session} session
 * @returns {InferenceSessionHandler}
 */
function handler(session) {
  const refuse = () => {
    throw new EngineError("Profiling by onnxruntime's methods is not available.", NO_PROFILING);
  };
  return {
    inputNames: session.inputNames,
    outputNames: session.outputNames,
    inputMetadata: /** @type {Ort.ValueMetadata[]} */ (session.inputMetadata),
    outputMetadata: /** @type {Ort.ValueMetadata[]} */ (session.outputMetadata),
    startProfiling: refuse,
    endProfiling: refuse,
    dispose: () => session.release(),
    async run(feeds, fetches) {
      const inputs = Object.fromEntries(Object.entries(feeds).map(([name, { type, data, dims }]) => [name, new Tensor(type, data, dims)]));
      const outputs = await session.run(inputs, Object.keys(fetches));
      return Object.fromEntries(Object.entries(outputs).map(([name, { type, data, dims }]) => [name, filled(fetches[name], type, data, dims) ?? new OrtTensor(/** @type {any} */ (type), data, dims)]));
    },
  };
}

/**
 * The caller's own tensor with the values of an output, where one was given for it.
 * @param {import("onnxruntime-common").OnnxValue | null} given
 * @param {string} type
 * @param {any} data
 * @param {readonly number[]} dims
 */
function filled(given, type, data, dims) {
  if (!given) return null;
  if (given.type !== type || `${given.dims}` !== `${dims}`)
    throw new EngineError(`The tensor given for an output is ${given.type}[${given.dims}], the output is ${type}[${dims}].`, "Give one of the output's type and shape, or none.");
  if (given.data instanceof data.constructor) /** @type {any} */ (given.data).set(data);
  else new Uint8Array(/** @type {any} */ (given.data).buffer, /** @type {any} */ (given.data).byteOffset, data.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  return given;
}
