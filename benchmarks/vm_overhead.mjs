/**
 * What an instruction of the engine costs without its kernel, in Node: a bundle for any size runs with
 * kernels that return at once. Times are those of the processor, so that neighbours disturb less.
 *
 *     node benchmarks/vm_overhead.mjs out/paper-models/wasm/tree-lstm/any nodes=15 nodes=77
 *
 * A run writes its inputs and copies its outputs too; where a size changes the number of
 * instructions, as in a loop, the last line has the difference of the first and the last size.
 */
import { readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { Engine } from "../resources/engine/engine.js";
import { planAt } from "../resources/engine/open/plan.js";
import { Sizes } from "../resources/engine/open/sizes.js";
import { specBytes } from "../resources/engine/plan.js";
import { quantile } from "../resources/engine/quantile.js";

const RUNS = 500;
const SAMPLES = 15;

/** A kernel without a body. @param {number} parameters all i32 */
function empty(parameters) {
  const type = [1, 0x60, parameters, ...Array(parameters).fill(0x7f), 0];
  const section = (/** @type {number} */ id, /** @type {number[]} */ payload) => [id, payload.length, ...payload];
  const text = (/** @type {string} */ s) => [s.length, ...Buffer.from(s)];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, type),
    ...section(2, [1, ...text("env"), ...text("memory"), 2, 0, 1]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...text("run"), 0, 0]),
    ...section(10, [1, 2, 0, 0x0b]),
  ]);
}

/** How many instructions a plan runs; the edges of a loop are one. @param {any} plan */
function instructions({ steps }) {
  let [total, trips] = [0, 1];
  for (const { op, loop } of steps) {
    if (op === "loop") trips = loop.trips;
    if (op === "end") trips = 1;
    total += op === "call" || op === "loop" ? trips : 0;
  }
  return total;
}

const [folder, ...texts] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
const open = JSON.parse(readFileSync(join(folder, manifest.plan.file ?? manifest.plan), "utf8"));
const sizes = new Sizes(open);
const engine = new Engine();
const every = sizes.everyVariant;
engine.load(every, {}, sizes);
const kernels = new Map();
for (const { op, workload, args, scalars = [] } of every.steps)
  if (op === "call") kernels.set(workload, { workload, settings: "", panels: [], parallel_extent: 1, bytes: empty(args.length + scalars.length + 2) });
await engine.register([...kernels.values()]);

const rows = texts.map((text) => {
  const dims = { ...open.example, ...Object.fromEntries([text.split("=")].map(([name, n]) => [name, Number(n)])) };
  const plan = planAt(open, dims);
  const inputs = plan.inputs.map(({ spec }) => ({ ...spec, data: new Uint8Array(specBytes(spec)) }));
  const sample = () => {
    const start = process.cpuUsage();
    for (let i = 0; i < RUNS; i++) for (const { data } of engine.infer(inputs).outputs) engine.recycle(data);
    const { user, system } = process.cpuUsage(start);
    return (1000 * (user + system)) / RUNS;
  };
  sample();
  const ns = Array.from({ length: SAMPLES }, sample);
  return { text, count: instructions(plan), ns: quantile(ns, 0.5), iqr: quantile(ns, 0.75) - quantile(ns, 0.25) };
});
console.log(`Node ${process.version} (V8 ${process.versions.v8}), ${availableParallelism()} cores, load average ${loadavg().map((n) => n.toFixed(1)).join(", ")}`);
for (const { text, count, ns, iqr } of rows)
  console.log(`${text}: ${count} instructions, ${(ns / 1000).toFixed(1)} us a run (IQR ${(iqr / 1000).toFixed(1)}), ${(ns / count).toFixed(0)} ns an instruction`);
const [first, last] = [rows[0], rows[rows.length - 1]];
if (last.count !== first.count)
  console.log(`${first.text} to ${last.text}: ${((last.ns - first.ns) / (last.count - first.count)).toFixed(0)} ns an instruction`);
