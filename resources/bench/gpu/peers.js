/** The peers on WebGPU: ONNX Runtime Web and TensorFlow.js, opened once for a page. */
import { own, recorderOf } from "./record.js";

const NODE_MODULES = new URL("../../node_modules/", import.meta.url).href;
/** A model of one operator that does nothing of worth: while it lives, so does the device. */
const KEEP_ALIVE = new URL("../../files/keep_alive.onnx", import.meta.url).href;

/** @param {string} url */
function loadScript(url) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${url} did not load.`)));
    document.head.append(script);
  });
}

/** @type {any} */
let ort = null;
/** @type {any} */
let tf = null;

/**
 * ONNX Runtime Web with its device.
 * @returns {Promise<{ort: any, device: any, session: (url: string, options?: any) => Promise<any>}>}
 */
export async function onnxRuntime() {
  own("ort");
  const create = (/** @type {string} */ url, options = {}) =>
    ort.InferenceSession.create(url, { executionProviders: ["webgpu"], preferredOutputLocation: "gpu-buffer", ...options });
  if (!ort) {
    ort = await import(`${NODE_MODULES}onnxruntime-web/dist/ort.webgpu.min.mjs`);
    ort.env.wasm.wasmPaths = `${NODE_MODULES}onnxruntime-web/dist/`;
    ort.env.wasm.numThreads = 1;
    await create(KEEP_ALIVE);
  }
  const device = await ort.env.webgpu.device;
  if (device !== recorderOf("ort").device) throw new Error("ONNX Runtime Web uses another device than the one that is recorded.");
  return { ort, device, session: create };
}

/**
 * TensorFlow.js on its webgpu backend.
 * @returns {Promise<{tf: any, device: any}>}
 */
export async function tensorFlow() {
  own("tfjs");
  if (!tf) {
    const base = `${NODE_MODULES}@tensorflow/`;
    for (const file of ["tfjs-core/dist/tf-core.min.js", "tfjs-backend-cpu/dist/tf-backend-cpu.min.js", "tfjs-backend-webgpu/dist/tf-backend-webgpu.min.js"])
      await loadScript(base + file);
    tf = /** @type {any} */ (globalThis).tf;
    if (!(await tf.setBackend("webgpu"))) throw new Error("TensorFlow.js did not start its webgpu backend.");
    await tf.ready();
  }
  return { tf, device: tf.backend().device };
}

/** Gives what TensorFlow.js has put together to the GPU: what it does before it reads. */
export function flushTensorFlow() {
  const backend = tf.backend();
  backend.endComputePassEncoder();
  if (backend.commandEncoder) backend.submitQueue();
}

/** @returns {Record<string, string>} versions of the peers that were loaded */
export const versions = () => ({
  ...(ort ? { ort: ort.env.versions.web } : {}),
  ...(tf ? { tfjs: tf.version_core ?? tf.version?.["tfjs-core"] } : {}),
});
