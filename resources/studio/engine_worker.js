/** The long-lived worker that holds the model and runs it. */
import { Engine } from "../engine/engine.js";
import { EngineError } from "../engine/errors.js";
import { generate } from "../engine/generation/generate.js";
import { Team } from "../engine/team.js";
import { timerQuantum } from "../engine/tuning/timing.js";
import { serve } from "./serve.js";
import { compareModels, trial } from "./trial.js";

/** @import { GpuEngine } from "../engine/gpu/engine.js" */
/** @import { MixedEngine } from "../engine/gpu/mixed/engine.js" */
/** @import { Header } from "./frames.js" */
/** @type {Engine | GpuEngine | MixedEngine} */
let engine = new Engine();
/** @type {Team | null} of the Wasm engine */
let team = null;
/** @type {Engine | null} another form of the model, to be compared with it */
let rival = null;
/** @type {(() => void) | null} forces a loss of the GPU, where a test asked for it */
let lose = null;
/** @type {AbortController | null} of the generation that runs */
let generation = null;

/**
 * An engine that holds the model; bytes of its memory.
 * @param {Header} header of a `load`
 * @returns {Promise<number>}
 */
async function start({ plan, others, mixed, backend = "wasm", implementation = "navigator", bridge, debug = false, threads = 1 }) {
  if (backend === "wasm") {
    team = threads > 1 ? await Team.start(threads) : null;
    engine = new Engine(team);
    return engine.load(plan, others);
  }
  const [{ GpuEngine }, { openGpu }] = await Promise.all([import("../engine/gpu/engine.js"), import("./gpu/open.js")]);
  const device = await openGpu({ implementation, bridge });
  if (debug) lose = () => device.lose();
  if (mixed) {
    const { MixedEngine } = await import("../engine/gpu/mixed/engine.js");
    const divided = new MixedEngine(new GpuEngine(device), new Engine());
    engine = divided;
    return divided.load(plan, mixed, others);
  }
  engine = new GpuEngine(device);
  return engine.load(plan, others);
}

/**
 * Posts each token as soon as it is known.
 * @param {Header} header
 */
async function stream({ id, facts, ids, max_tokens, top_k, top_p, repetition_penalty, temperature, seed, stop_tokens }) {
  generation = new AbortController();
  const options = { maxTokens: max_tokens, topK: top_k, topP: top_p, repetitionPenalty: repetition_penalty, temperature, seed, stopTokens: stop_tokens, signal: generation.signal };
  try {
    if (!("stepper" in engine)) throw new EngineError("A model whose steps are divided between WebGPU and Wasm makes no text.");
    const tokens = generate(engine, facts, ids, options);
    for (let made = 0; ; made++) {
      const { done, value } = await tokens.next();
      if (done) return { type: "generated", made, reason: value, memory_bytes: engine.memoryBytes };
      postMessage({ header: { type: "token", of: id, token: value.id, ms: value.ms, margin: value.margin } });
    }
  } finally {
    generation = null;
  }
}

/**
 * @param {Header} header of a `trial`
 * @param {Uint8Array[]} blobs
 */
async function tried({ inputs, kernels, policy, plan, rival: whole }, blobs) {
  if (!(engine instanceof Engine)) throw new EngineError("Kernels are tried in place in Wasm alone.");
  const now = () => performance.now();
  const tensors = inputs.map((/** @type {any} */ t, /** @type {number} */ i) => ({ ...t, data: blobs[i] }));
  const clock = { now, quantum_ms: timerQuantum(now) };
  if (whole) return compareModels(engine, other(), tensors, policy, clock);
  const rivals = kernels.map((/** @type {any} */ k, /** @type {number} */ i) => ({ ...k, bytes: blobs[inputs.length + i] }));
  return trial(engine, tensors, rivals, policy, clock, plan);
}

function other() {
  if (!rival) throw new EngineError("No other form of the model is loaded.");
  return rival;
}

serve(async ({ header, blobs }) => {
  switch (header.type) {
    case "load": {
      // the page starts a worker for each model: there is never an older team or device
      const { plan, others, threads = 1 } = header;
      if (header.rival) {
        if (!(engine instanceof Engine)) throw new EngineError("Two forms of a model are compared in Wasm alone.");
        rival?.dispose();
        rival = new Engine(team);
        return { header: { type: "ok", memory_bytes: rival.load(plan, others), threads } };
      }
      return { header: { type: "ok", memory_bytes: await start(header), threads } };
    }
    case "weights":
      await (header.rival ? other() : engine).setWeights(header.offset, blobs[0]);
      return { header: { type: "ok" } };
    case "register": {
      const kernels = header.kernels.map((/** @type {any} */ k, /** @type {number} */ i) => ({ ...k, bytes: blobs[i] }));
      return { header: { type: "ok", ...(await (header.rival ? other() : engine).register(kernels, { only: header.only })) } };
    }
    case "infer": {
      const inputs = header.inputs.map((/** @type {any} */ t, /** @type {number} */ i) => ({ ...t, data: blobs[i] }));
      const { runs, profile, least_step_ms, taps, plan } = header;
      const { outputs, taps: copies, ...times } = await (header.rival ? other() : engine).infer(inputs, { runs, profile, least_step_ms, taps, plan });
      const specs = outputs.map(({ name, dtype, shape }) => ({ name, dtype, shape }));
      return { header: { type: "inferred", outputs: specs, ...times }, blobs: [...outputs.map((t) => t.data), ...copies] };
    }
    case "rival_drop":
      rival?.dispose();
      rival = null;
      return { header: { type: "ok" } };
    case "trial":
      return { header: { type: "tried", ...(await tried(header, blobs)) } };
    case "generate":
      return { header: await stream(header) };
    case "gpu_lose":
      if (!lose) throw new EngineError("The GPU is lost on purpose only after a load with `debug`.");
      setTimeout(lose, header.after_ms ?? 0);
      return { header: { type: "ok" } };
    case "generate_stop":
      generation?.abort();
      return { header: { type: "ok" } };
    default:
      throw new EngineError(`The engine worker has no answer to "${header.type}".`);
  }
});
