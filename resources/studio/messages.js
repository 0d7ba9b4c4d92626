/**
 * The requests of docs/protocol.md: which fields each must have before a
 * worker sees it, and how many blobs.
 */
import { EngineError } from "../engine/errors.js";
import { MAX_THREADS } from "../engine/team.js";

export const PROTOCOL_VERSION = 1;

/** @typedef {import("./frames.js").Header} Header */
/** @typedef {"number" | "string" | "boolean" | "object" | "array" | "object?" | "threads?" | "number?" | "array?" | "string?" | "boolean?" | "plans?" | "shape" | "backend?" | "implementation?" | "implementation"} Kind */

/** @type {Record<string, Record<string, Kind>>} */
const FIELDS = {
  probe: { peak: "array" },
  rates: { items: "array", memory_bytes: "number", rounds: "number", sample_ms: "number", warmup_ms: "number" },
  gpu_probe: { implementation: "implementation", flops: "number" },
  gpu_lose: { after_ms: "number?" },
  load: { plan: "object", others: "plans?", threads: "threads?", backend: "backend?", implementation: "implementation?", debug: "boolean?" },
  weights: { offset: "number" },
  register: { kernels: "array", only: "boolean?" },
  infer: { inputs: "array", runs: "number", profile: "boolean", least_step_ms: "number?", taps: "array?", plan: "string?" },
  ahead: { blob: "number", nbytes: "number", offset: "number" },
  serve: { inputs: "array", interval_ms: "number", budget: "number?" },
  generate: { facts: "object", ids: "array", max_tokens: "number", top_k: "number", temperature: "number", seed: "number", stop_tokens: "array" },
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

/**
 * @param {Header} header
 * @param {Uint8Array[]} blobs
 */
export function checkRequest(header, blobs) {
  const { type } = header;
  const fields = FIELDS[type];
  if (!fields) throw new EngineError(`The page has no answer to "${type}".`, "Use a page and a hub of the same NNJIT Studio.");
  if (!Number.isSafeInteger(header.id)) throw new EngineError(`The request "${type}" has no id.`);
  check(type, header, fields);
  const all = (/** @type {string} */ name, /** @type {any[]} */ list) =>
    list.forEach((item, i) => check(`${type}, ${name} ${i}`, item, PARTS[name]));
  let count = blobs.length;
  switch (type) {
    case "probe":
      all("peak", header.peak);
      count = header.peak.length;
      break;
    case "rates": {
      all("item", header.items);
      const lost = header.items.find((/** @type {any} */ item) => !(item.kernel in blobs));
      if (lost) throw new EngineError(`The request "rates" names kernel ${lost.kernel}, which it does not carry.`);
      break;
    }
    case "gpu_probe":
      count = Math.min(blobs.length, 1);
      break;
    case "load":
    case "gpu_lose":
    case "generate":
      count = 0;
      break;
    case "pulse":
    case "weights":
    case "ahead":
      count = 1;
      break;
    case "prepare":
    case "register":
      all("kernel", header.kernels);
      count = header.kernels.length;
      break;
    case "served":
    case "serve_stop":
      count = 0;
      break;
    case "serve":
    case "infer":
      all("input", header.inputs);
      all("tap", header.taps ?? []);
      count = header.inputs.length;
      break;
    case "fixture": {
      all("arg", header.args);
      all("output", header.outputs);
      const named = [...header.args.map((/** @type {any} */ a) => a.blob ?? null), ...header.outputs.flatMap(Object.values)];
      const lost = named.find((i) => i !== null && !(i in blobs));
      if (lost !== undefined) throw new EngineError(`The request "fixture" names blob ${lost}, which it does not carry.`);
      break;
    }
    case "measure":
      check("measure, challenger", header.challenger, PARTS.kernel);
      check("measure, policy", header.policy, PARTS.policy);
      if (header.incumbent) check("measure, incumbent", header.incumbent, PARTS.kernel);
      count = header.incumbent ? 2 : 1;
  }
  if (type === "serve" && !(header.interval_ms >= 0 && (header.budget ?? 0) >= 0))
    throw new EngineError('The request "serve" needs an interval and a budget of at least 0.');
  if (type === "served" && (header.budget ?? 0) < 0) throw new EngineError('The request "served" needs a budget of at least 0.');
  if (blobs.length !== count) throw new EngineError(`The request "${type}" needs ${count} blobs and carries ${blobs.length}.`);
}

/**
 * @param {string} where
 * @param {any} value
 * @param {Record<string, Kind>} fields
 */
function check(where, value, fields) {
  for (const [name, kind] of Object.entries(fields))
    if (!fits(value?.[name], kind)) throw new EngineError(`The request "${where}" needs the field "${name}" (${kind}).`);
}

/**
 * @param {any} value
 * @param {Kind} kind
 * @returns {boolean}
 */
function fits(value, kind) {
  switch (kind) {
    case "array":
      return Array.isArray(value);
    case "shape":
      return Array.isArray(value) && value.every((d) => Number.isSafeInteger(d) && d >= 0);
    case "threads?":
      return value === undefined || (Number.isInteger(value) && value >= 1 && value <= MAX_THREADS);
    case "number?":
      return value === undefined || value === null || typeof value === "number";
    case "array?":
      return value === undefined || Array.isArray(value);
    case "string?":
    case "boolean?":
      return value === undefined || typeof value === kind.slice(0, -1);
    case "backend?":
      return value === undefined || value === "wasm" || value === "webgpu";
    case "implementation?":
      return value === undefined || fits(value, "implementation");
    case "implementation":
      return value === "navigator" || value === "bridge";
    case "plans?":
      return value === undefined || fits(value, "object");
    case "object?":
      return value === null || fits(value, "object");
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return typeof value === kind;
  }
}
