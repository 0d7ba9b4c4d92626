/** The page of `nnjit offload`: modules as they are and rewritten, in a worker of the page. */
import { report } from "../page.js";
import { begin, conductGpu } from "./page.js";

await conductGpu(async () => {
  const { job, gpu } = await begin();
  gpu.destroy();
  const worker = new Worker(new URL("../offload/worker.js", import.meta.url), { type: "module" });
  await new Promise((resolve, reject) => {
    worker.addEventListener("error", (e) => reject(new Error(e.message)));
    worker.addEventListener("message", ({ data }) => {
      if (data.error) reject(new Error(data.error));
      else if (data.end) resolve(null);
      else report({ type: "row", ...data });
    });
    worker.postMessage({ job, files: new URL("../../files/", import.meta.url).href });
  });
  worker.terminate();
  return {};
});
