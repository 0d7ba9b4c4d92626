/** The worker that owns the device while the module's thread blocks (blocking.js). */
import { openNative } from "../engine/gpu/native/device.js";
import { LENGTH, STATE } from "./channel.js";
import { OffloadGpu } from "./gpu.js";

/** @import { Answer, Facts } from "./channel.js" */

/** @type {OffloadGpu | null} */
let gpu = null;
/** @type {Int32Array} */
let control;
/** @type {Uint8Array} */
let message;

/** @returns {Promise<Facts | null>} */
async function open() {
  try {
    gpu = await OffloadGpu.open(() => openNative());
    return { key: gpu.facts.key, ...gpu.cost };
  } catch {
    gpu = null;
    return null;
  }
}

/** @param {Answer} answer */
function tell(answer) {
  const bytes = new TextEncoder().encode(JSON.stringify(answer)).subarray(0, message.length);
  message.set(bytes);
  Atomics.store(control, LENGTH, bytes.length);
  Atomics.store(control, STATE, 1);
  Atomics.notify(control, STATE);
}

self.addEventListener("message", async ({ data }) => {
  if (data.control) {
    ({ control, message } = data);
    self.postMessage({ facts: await open() });
    return;
  }
  if (data.lose) {
    gpu?.device.lose();
    return;
  }
  try {
    if (!gpu) throw Object.assign(new Error("There is no device."), { code: "gpu-unavailable" });
    const { outputs, tried, price } = await gpu.run(data.job);
    [outputs, ...tried].forEach((run, i) => run.forEach((bytes, j) => data.outputs[i][j].set(bytes)));
    tell({ price });
  } catch (e) {
    const { code = "gpu-error", message: text } = /** @type {any} */ (e);
    const lost = code === "gpu-lost" || code === "gpu-unavailable";
    tell({ code, message: String(text).slice(0, 1000), facts: lost ? await open() : null });
  }
});
