/** The disposable worker that measures: what a hundred kernels leave behind goes with it. */
import { EngineError } from "../engine/errors.js";
import { Team } from "../engine/team.js";
import { Turnstile } from "./gate.js";
import { Bench } from "../engine/tuning/measure.js";
import { probe } from "./measure/probe.js";
import { rates } from "./measure/rates.js";
import { Sentinel } from "./measure/sentinel.js";
import { timerQuantum } from "../engine/tuning/timing.js";
import { serve } from "./serve.js";

/** @type {Turnstile | null} while a model serves, tuning waits at it */
let turnstile = null;
const now = () => turnstile?.now() ?? performance.now();
const clock = { now, quantum_ms: timerQuantum(now) };
/** @import { GpuDevice } from "../types/gpu.js" */
/** @import { Header } from "./frames.js" */
/** @import { GpuBench } from "./gpu/measure.js" */
/** @import { Call, Reply } from "./serve.js" */
/** @type {Bench | GpuBench} */
let bench = new Bench(clock);
/** @type {{device: GpuDevice, implementation: string} | null} */
let gpu = null;
const sentinel = new Sentinel(now);

/** @param {Header} header @returns {Promise<GpuDevice>} */
async function useGpu({ implementation = "navigator", bridge }) {
  if (gpu && gpu.implementation === implementation) return gpu.device;
  const { openGpu } = await import("./gpu/open.js");
  gpu?.device.destroy();
  const device = await openGpu({ implementation, bridge });
  gpu = { device, implementation };
  device.lost.then(() => {
    if (gpu?.device === device) gpu = null; // the next fixture gets another one
  });
  return device;
}

/**
 * A bench for these threads, or for this GPU; the one there is where it fits.
 * @param {Header} header of a `fixture`
 */
async function useBench(header) {
  const { threads = 1, backend = "wasm" } = header;
  if (backend === "webgpu") {
    const device = await useGpu(header);
    if ("team" in bench) bench.team?.close();
    if (!("device" in bench) || bench.device !== device) {
      const { GpuBench } = await import("./gpu/measure.js");
      bench = new GpuBench(device, clock);
    }
  } else if (!("team" in bench) || threads !== (bench.team?.threads ?? 1)) {
    const team = threads > 1 ? await Team.start(threads) : null;
    if ("team" in bench) bench.team?.close();
    bench = new Bench(clock, team);
  }
}

serve(async (call) => {
  if (call.header.type === "gate") {
    turnstile = new Turnstile(call.header.words, () => performance.now());
    return { header: { type: "ok" } };
  }
  turnstile?.enter();
  try {
    return await answer(call);
  } finally {
    turnstile?.leave();
  }
});

/** Tells the page that a kernel's first run has ended. @param {number} of id of its call */
const checked = (of) => postMessage({ header: { type: "checked", of }, blobs: [] });

/** @param {Call} call @returns {Promise<Reply>} */
async function answer({ header, blobs }) {
  switch (header.type) {
    case "probe":
      return { header: { type: "probed", ...(await probe(header.peak, blobs)) } };
    case "rates":
      return { header: { type: "rated", samples_ms: await rates(/** @type {any} */ (header), blobs, clock) } };
    case "gpu_probe": {
      const { probeGpu } = await import("./gpu/probe.js");
      const { implementation, bridge, flops } = header;
      return { header: { type: "gpu_probed", ...(await probeGpu({ implementation, bridge }, blobs[0], flops)) } };
    }
    case "pulse":
      if (header.backend === "webgpu") {
        const { peakMs } = await import("./gpu/probe.js");
        const ms = await peakMs(await useGpu(header), blobs[0]);
        return { header: { type: "pulsed", gflops: header.flops_per_iteration / ms / 1e6 } };
      }
      return { header: { type: "pulsed", ...(await sentinel.rate(blobs[0], header.flops_per_iteration)) } };
    case "fixture":
      await useBench(header);
      await bench.setFixture({ workload: header.workload, args: header.args, outputs: header.outputs }, blobs);
      return { header: { type: "ok" } };
    case "prepare":
      for (const [i, kernel] of header.kernels.entries()) if ("prepare" in bench) bench.prepare({ header: kernel, bytes: blobs[i] });
      return { header: { type: "ok" } };
    case "measure": {
      const challenger = { header: header.challenger, bytes: blobs[0] };
      const incumbent = header.incumbent && { header: header.incumbent, bytes: blobs[1] };
      return { header: { type: "measured", ...(await bench.measure(challenger, incumbent, header.policy, () => checked(/** @type {number} */ (header.id)))) } };
    }
    default:
      throw new EngineError(`The measuring worker has no answer to "${header.type}".`);
  }
}
