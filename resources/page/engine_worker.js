/** The long-lived worker that holds the model and runs it. */
import { Engine } from "./engine.js";
import { EngineError } from "./errors.js";
import { serve } from "./serve.js";
import { Team } from "./team.js";

let engine = new Engine();

serve(async ({ header, blobs }) => {
  switch (header.type) {
    case "load": {
      // the page starts a worker for each model: there is never an older team
      const { plan, threads = 1 } = header;
      if (threads > 1) engine = new Engine(await Team.start(threads));
      return { header: { type: "ok", memory_bytes: engine.load(plan), threads } };
    }
    case "weights":
      engine.setWeights(header.offset, blobs[0]);
      return { header: { type: "ok" } };
    case "register": {
      const kernels = header.kernels.map((/** @type {any} */ k, /** @type {number} */ i) => ({ ...k, bytes: blobs[i] }));
      return { header: { type: "ok", ...(await engine.register(kernels)) } };
    }
    case "infer": {
      const inputs = header.inputs.map((/** @type {any} */ t, /** @type {number} */ i) => ({ ...t, data: blobs[i] }));
      const { runs, profile, least_step_ms, taps } = header;
      const { outputs, taps: copies, ...times } = engine.infer(inputs, { runs, profile, least_step_ms, taps });
      const specs = outputs.map(({ name, dtype, shape }) => ({ name, dtype, shape }));
      return { header: { type: "inferred", outputs: specs, ...times }, blobs: [...outputs.map((t) => t.data), ...copies] };
    }
    default:
      throw new EngineError(`The engine worker has no answer to "${header.type}".`);
  }
});
