/**
 * The requests of docs/protocol.md: which fields each must have before a
 * worker sees it, and how many blobs.
 */
import { EngineError } from "../engine/errors.js";
import { MAX_THREADS } from "../engine/features.js";

export const PROTOCOL_VERSION = 1;

/** @import { Header } from "./frames.js" */
/** @typedef {"number" | "string" | "boolean" | "object" | "array" | "object?" | "threads?" | "number?" | "array?" | "string?" | "boolean?" | "plans?" | "shape" | "backend?" | "implementation?" | "implementation"} Kind */

/** @type {Record<string, Record<string, Kind>>} */
const FIELDS = {
  probe: { peak: "array" },
  rates: { items: "array", memory_bytes: "number", rounds: "number", sample_ms: "number", warmup_ms: "number" },
  gpu_probe: { implementation: "implementation", flops: "number" },
  gpu_lose: { after_ms: "number?" },
  load: { plan: "object", others: "plans?", rival: "boolean?", threads: "threads?", backend: "backend?", implementation: "implementation?", debug: "boolean?" },
  weights: { offset: "number", rival: "boolean?" },
  register: { kernels: "array", only: "boolean?", rival: "boolean?" },
  infer: { inputs: "array", runs: "number", profile: "boolean", least_step_ms: "number?", taps: "array?", plan: "string?", rival: "boolean?" },
  trial: { inputs: "array", kernels: "array", policy: "object", plan: "string?", rival: "boolean?" },
  rival_drop: {},
  ahead: { blob: "number", nbytes: "number", offset: "number" },
  serve: { inputs: "array", interval_ms: "number", budget: "number?" },
  generate: { facts: "object", ids: "array", max_tokens: "number", top_k: "number", top_p: "number", repetition_penalty: "number", temperature: "number", seed: "number", stop_tokens: "array" },
  generate_stop: {},
  pulse: { flops_per_iteration: "number", backend: "backend?", implementation: "implementation?" },
  served: { hold: "boolean?", budget: "number?" },
  serve_stop: {},
  fixture: {
    workload: "string",
    args: "array",
    outputs: "array",
    threads: "threads?",
    backend: "backend?",
    implementation: "implementation?",
  },
  measure: { challenger: "object", incumbent: "object?", policy: "object" },
  prepare: { kernels: "array" },
};

/** @type {Record<string, Record<string, Kind>>} */
const PARTS = {
  kernel: { workload: "string", settings: "string", panels: "array", parallel_extent: "number" },
  input: { name: "string", dtype: "string", shape: "shape" },
  policy: {
    pairs: "number",
    min_sample_ms: "number",
    min_quanta: "number",
    warmup_ms: "number",
    early_stop_ratio: "number",
    max_ms: "number",
  },
  peak: { tier: "string", flops_per_iteration: "number" },
  item: { kernel: "number", extent: "number", threads: "threads?", chain_bytes: "number" },
  arg: { role: "string", dtype: "string", nbytes: "number" },
  output: { expected: "number", bound: "number" },
  tap: { step: "number", buffer: "number", offset: "number", nbytes: "number" },
};
/** What the items of a request's lists are, by the name of the list. @type {Record<string, string>} */
const LISTS = { peak: "peak", items: "item", kernels: "kernel", inputs: "input", taps: "tap", args: "arg", outputs: "output" };
/** How many blobs a request carries, or the list that has one for each item; where there is neither, any number. @type {Record<string, number | string>} */
const BLOBS = {
  ...{ load: 0, rival_drop: 0, gpu_lose: 0, generate: 0, served: 0, serve_stop: 0 },
  ...{ pulse: 1, weights: 1, ahead: 1 },
  ...{ probe: "peak", prepare: "kernels", register: "kernels", serve: "inputs", infer: "inputs" },
};

/** @param {Header} header @param {Uint8Array[]} blobs */
export function checkRequest(header, blobs) {
  const { type, budget = 0 } = header;
  const fields = FIELDS[type];
  if (!fields) throw new EngineError(`The page has no answer to "${type}".`, "Use a page and a hub of the same NNJIT Studio.");
  if (!Number.isSafeInteger(header.id)) throw new EngineError(`The request "${type}" has no id.`);
  check(type, header, fields);
  for (const [list, part] of Object.entries(LISTS))
    if (list in fields) (header[list] ?? []).forEach((/** @type {any} */ item, /** @type {number} */ i) => check(`${type}, ${part} ${i}`, item, PARTS[part]));
  if (type === "measure")
    for (const [name, part] of [["challenger", "kernel"], ["policy", "policy"], ["incumbent", "kernel"]])
      if (header[name]) check(`measure, ${name}`, header[name], PARTS[part]);
  if (type === "trial") check("trial, policy", header.policy, PARTS.policy);
  if (type === "serve" && !(header.interval_ms >= 0 && budget >= 0))
    throw new EngineError('The request "serve" needs an interval and a budget of at least 0.');
  if (type === "served" && budget < 0) throw new EngineError('The request "served" needs a budget of at least 0.');
  checkBlobs(header, blobs);
}

/** @param {Header} header @param {Uint8Array[]} blobs */
function checkBlobs(header, blobs) {
  const { type } = header;
  const trial = type === "trial" ? header.inputs.length + header.kernels.length : 0;
  const carried = BLOBS[type] ?? { trial, measure: header.incumbent ? 2 : 1, gpu_probe: Math.min(blobs.length, 1) }[type] ?? blobs.length;
  const count = typeof carried === "string" ? header[carried].length : carried;
  if (blobs.length !== count) throw new EngineError(`The request "${type}" needs ${count} blobs and carries ${blobs.length}.`);
  const named =
    type === "rates"
      ? header.items.map((/** @type {any} */ item) => item.kernel)
      : type === "fixture"
        ? [...header.args.map((/** @type {any} */ a) => a.blob ?? null), ...header.outputs.flatMap(Object.values)]
        : [];
  const lost = named.find((/** @type {any} */ i) => i !== null && !(i in blobs));
  if (lost !== undefined) throw new EngineError(`The request "${type}" names ${type === "rates" ? "kernel" : "blob"} ${lost}, which it does not carry.`);
}

/** @param {string} where @param {any} value @param {Record<string, Kind>} fields */
function check(where, value, fields) {
  for (const [name, kind] of Object.entries(fields))
    if (!fits(value?.[name], kind)) throw new EngineError(`The request "${where}" needs the field "${name}" (${kind}).`);
}

/**
 * @param {any} value
 * @param {string} kind with a question mark the field may be left out
 * @returns {boolean}
 */
function fits(value, kind) {
  if (kind === "object?") return value === null || fits(value, "object");
  if (kind.endsWith("?")) return value === undefined || (kind === "number?" && value === null) || fits(value, kind.slice(0, -1));
  switch (kind) {
    case "array":
      return Array.isArray(value);
    case "shape":
      return Array.isArray(value) && value.every((d) => Number.isSafeInteger(d) && d >= 0);
    case "threads":
      return Number.isInteger(value) && value >= 1 && value <= MAX_THREADS;
    case "backend":
      return value === "wasm" || value === "webgpu";
    case "implementation":
      return value === "navigator" || value === "bridge";
    case "object":
    case "plans":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return typeof value === kind;
  }
}
