/** What an engine is asked about a module: loops, whole functions, validity. */
import { compare } from "./functions.js";
import { judge } from "./kernels.js";
import { rows } from "./loops.js";

/** @import { FunctionJob, Settings } from "./loops.js" */
/** @import { PairJob } from "./functions.js" */
/** @import { KernelJob } from "./kernels.js" */
/** @typedef {{settings: Settings, functions: FunctionJob[], pairs: PairJob[], modules: string[], kernels?: KernelJob}} Job */

/**
 * @param {Job} job
 * @param {(path: string) => Promise<BufferSource>} fetchBytes
 * @param {(message: Record<string, unknown>) => unknown} tell
 */
export async function work(job, fetchBytes, tell) {
  for (const one of job.functions) for await (const row of rows(one, job.settings, fetchBytes)) await tell({ type: "row", loop: row });
  for (const pair of job.pairs) await tell({ type: "row", pair: await compare(pair, job.settings, fetchBytes) });
  for (const file of job.modules) await tell({ type: "row", module: { file, valid: WebAssembly.validate(await fetchBytes(file)) } });
  if (job.kernels) await tell({ type: "row", kernels: await judge(job.kernels, job.settings, fetchBytes) });
  await tell({ type: "done", user_agent: navigator.userAgent });
}
