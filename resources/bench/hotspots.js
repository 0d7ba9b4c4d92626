/** Runs a model in ONNX Runtime Web for some seconds, for whoever samples the page. */
import { conduct, fetchBytes, fetchJob, file, report } from "./page.js";
import { openOnnxRuntime } from "./sessions.js";

/** @type {Record<string, any>} */
const ARRAYS = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array, int8: Int8Array, uint8: Uint8Array, bool: Uint8Array };

conduct(async () => {
  const job = await fetchJob();
  const { session, feeds, threads } = await openOnnxRuntime(file(job.onnx), job.threads);
  const read = async (/** @type {any} */ input) => ({ ...input, data: new ARRAYS[input.type](await fetchBytes(input.file)) });
  const given = feeds(await Promise.all(job.inputs.map(read)));
  const ends = performance.now() + job.warmup_s * 1000;
  do await session.run(given);
  while (performance.now() < ends);
  await report({ type: "ready", threads });
  await fetch(new URL("../command", import.meta.url)); // the sampler begins anew meanwhile
  const start = performance.now();
  let runs = 0;
  for (; performance.now() - start < job.seconds * 1000; runs++) await session.run(given);
  await report({ type: "done", runs, ms: (performance.now() - start) / runs });
  await new Promise(() => {}); // the samples are read from a page that is still there
});
