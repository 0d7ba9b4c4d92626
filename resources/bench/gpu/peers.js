/** The peers on WebGPU: ONNX Runtime Web and TensorFlow.js, opened once for a page. */
import { file, loadOnnxRuntime, loadScripts, versionsOf } from "../page.js";
import { own, recorderOf } from "./record.js";

/** A model of one operator that does nothing of worth: while it lives, so does the device. */
const KEEP_ALIVE = file("keep_alive.onnx");

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
    ort = await loadOnnxRuntime("ort.webgpu.min.mjs", 1);
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
    const scripts = ["tfjs-core/dist/tf-core.min.js", "tfjs-backend-cpu/dist/tf-backend-cpu.min.js", "tfjs-backend-webgpu/dist/tf-backend-webgpu.min.js"];
    ({ tf } = await loadScripts("@tensorflow", ...scripts));
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

export const versions = () => versionsOf(ort, tf);
