/** Runs the cases of bundle.py in Node, on Dawn; prints one JSON line for each. */
import { readFile } from "node:fs/promises";
import { create, globals } from "webgpu";

Object.assign(globalThis, globals);
const gpu = create((process.env.DAWN ?? "").split(" ").filter(Boolean));
Object.defineProperty(globalThis, "navigator", { value: { gpu }, configurable: true });

const root = new URL("../../", import.meta.url);
const file = (name) => readFile(new URL(`files/${name}`, root));
const { run } = await import(new URL("resources/bench/offload/case.js", root));
const job = JSON.parse(await file("job.json"));
const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
const { vendor, architecture, device, description, driver } = adapter.info;
const features = [...adapter.features].filter((name) => /f16|subgroup/.test(name));
console.log(JSON.stringify({ adapter: { vendor, architecture, device, description, driver, features }, node: process.version, v8: process.versions.v8 }));
const only = process.argv.slice(2);
for (const row of job.cases) {
  if (only.length && !only.some((name) => row.name.startsWith(name))) continue;
  const start = performance.now();
  const found = await run(row, job.mode, file);
  found.status = found.status.filter(({ calls }) => calls);
  console.log(JSON.stringify({ ...found, seconds: (performance.now() - start) / 1000 }));
}
process.exit(0);
