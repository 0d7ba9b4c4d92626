/** The disposable worker that measures: what a hundred kernels leave behind goes with it. */
import { EngineError } from "./errors.js";
import { Bench } from "./measure.js";
import { probe } from "./probe.js";
import { serve } from "./serve.js";
import { timerQuantum } from "./timing.js";

const now = () => performance.now();
const bench = new Bench({ now, quantum_ms: timerQuantum(now) });

serve(async ({ header, blobs }) => {
  switch (header.type) {
    case "probe":
      return { header: { type: "probed", ...(await probe(header.peak, blobs)) } };
    case "fixture":
      bench.setFixture({ workload: header.workload, args: header.args, outputs: header.outputs }, blobs);
      return { header: { type: "ok" } };
    case "measure": {
      const challenger = { header: header.challenger, bytes: blobs[0] };
      const incumbent = header.incumbent && { header: header.incumbent, bytes: blobs[1] };
      return { header: { type: "measured", ...(await bench.measure(challenger, incumbent, header.policy)) } };
    }
    default:
      throw new EngineError(`The measuring worker has no answer to "${header.type}".`);
  }
});
