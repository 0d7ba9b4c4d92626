/** The disposable worker: what many kernels leave behind goes with it. */
import { errorFields } from "../../engine/errors.js";
import { TrialBench } from "./bench.js";

/** @import { Request } from "./bench.js" */

const bench = new TrialBench();
addEventListener("message", async (/** @type {MessageEvent<{id: number, request: Request}>} */ { data: { id, request } }) => {
  try {
    postMessage({ id, value: await bench.answer(request) });
  } catch (e) {
    postMessage({ id, failure: errorFields(e) });
  }
});
