/** Runs the cases of a job (see offload.js). */
import { hasJspi } from "../../offload/jspi.js";
import { run } from "./case.js";

/** @import { Job } from "./case.js" */

self.addEventListener("message", async ({ data: { job, files } }) => {
  try {
    const mode = /** @type {Job} */ (job).mode === "jspi" && hasJspi() ? "jspi" : "blocking";
    for (const row of /** @type {Job} */ (job).cases) self.postMessage(await run(row, mode, async (name) => (await fetch(new URL(name, files))).arrayBuffer()));
    self.postMessage({ end: true });
  } catch (e) {
    self.postMessage({ error: /** @type {any} */ (e).stack ?? String(e) });
  }
});
