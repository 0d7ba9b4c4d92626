/** Runs a model in ONNX Runtime Web for some seconds, for whoever samples the page. */
import { conduct, fetchInputs, fetchJob, file, report } from "./page.js";
import { openOnnxRuntime } from "./sessions.js";

conduct(async () => {
  const job = await fetchJob();
  const externalData = (job.external ?? []).map((/** @type {string} */ path) => ({ path, data: file(`model/${path}`) }));
  const options = { externalData, wasm: job.wasm && file(job.wasm) };
  const { session, feeds, threads } = await openOnnxRuntime(file(job.onnx), job.threads, options);
  const given = feeds(await fetchInputs(job));
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
