/** The page of compile times: a worker does the job, because pages may not compile large modules at once. */
import { conduct, fetchJob, file, report } from "./page.js";

conduct(async () => {
  const job = await fetchJob();
  const worker = new Worker(new URL("compile_times.js", import.meta.url));
  worker.addEventListener("message", ({ data }) => report(data));
  worker.addEventListener("error", (e) => report({ type: "error", error: `The compiling worker failed: ${e.message}` }));
  worker.postMessage({ ...job, files: job.files.map(file) });
});
