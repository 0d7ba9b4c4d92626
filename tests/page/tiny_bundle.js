/** The files of a small bundle with one product of a row and a matrix, or of a decoder. */
import { createHash } from "node:crypto";
import { C, decode, embed, FACTS, prefill, score, V } from "./decoder.js";
import { addKernel, doubleKernel, f32, header, planOf, rowAddKernel } from "./wasm.js";

export const [K, N] = [3, 5];
export const base = "http://static.example/models/tiny/manifest.json";
/** Of the input [10, 20, 30]. */
export const expected = Array.from({ length: K * N }, (_, i) => 2 * (10 * (1 + Math.floor(i / N)) + i / 4));
const weights = f32(...Array(16).fill(0), ...Array.from({ length: K * N }, (_, i) => i / 4), ...Array(33).fill(0));

export const encode = (value) => new TextEncoder().encode(JSON.stringify(value));
export const entry = (file, bytes) => ({ file, nbytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") });

/** Contents by name; `change` sees the manifest and the files first. A manifest with a `sha256` is sealed. */
export function tinyBundle({ plan = planOf(K, N), change = () => {} } = {}) {
  const files = { "plan.json": encode(plan), "weights.bin": weights, "kernels/a.wasm": rowAddKernel(K, N, 8), "kernels/b.wasm": addKernel };
  const kernel = (workload, panels, file) => {
    const { sha256, tier, ...fields } = header(workload, K * N, panels);
    return { ...fields, tiers: { simd128: entry(file, files[file]) } };
  };
  const manifest = {
    format: "nnjit-bundle",
    version: 1,
    name: "tiny",
    plan: entry("plan.json", files["plan.json"]),
    weights: entry("weights.bin", weights),
    kernels: [kernel("rowadd", [[1, 8]], "kernels/a.wasm"), kernel("add", [], "kernels/b.wasm")],
  };
  change(manifest, files);
  if (manifest.sha256 !== undefined) manifest.sha256 = entry("", encode({ ...manifest, sha256: "0".repeat(64) })).sha256;
  files["manifest.json"] ??= encode(manifest);
  return files;
}

/** Cuts the weights of the tiny bundle into files of 64 bytes, of which two are equal. */
export function shard(manifest, files) {
  const whole = files["weights.bin"];
  delete files["weights.bin"];
  const shards = [0, 64, 128, 192].map((at) => {
    const bytes = whole.slice(at, at + 64);
    const { sha256 } = entry("", bytes);
    files[`weights/${sha256}.bin`] = bytes;
    return entry(`weights/${sha256}.bin`, bytes);
  });
  Object.assign(manifest, { version: 2, weights: { nbytes: whole.length, shards } });
}

/** Turns the tiny bundle into one of a decoder. */
export function makeText(manifest, files) {
  const kernel = (workload, extent, bytes) => {
    const file = `kernels/${workload}.wasm`;
    files[file] = bytes;
    const { sha256, tier, ...fields } = header(workload, extent);
    return { ...fields, tiers: { simd128: entry(file, bytes) } };
  };
  Object.assign(files, { "plan.json": encode(decode), "prefill.json": encode(prefill), "weights.bin": new Uint8Array(0) });
  Object.assign(manifest, {
    plan: entry("plan.json", files["plan.json"]),
    weights: entry("weights.bin", files["weights.bin"]),
    kernels: [kernel("embed", 1, embed), kernel("score", V, score(C)), kernel("embed3", 3, embed), kernel("score3", V, score(3))],
    generation: { facts: { ...FACTS, rows: 3, last: "last" }, prefill: entry("prefill.json", files["prefill.json"]) },
  });
}

/** y = 2 (x + x) of any length: even ones by one kernel, odd ones by another. */
export function openPlan() {
  const n = [[1, "n"]];
  const variant = (workload) => ({ workload, scalars: [], extent: n });
  return {
    version: 6,
    name: "twice",
    dims: [{ name: "n", low: 1, high: 2 ** 30, step: 1 }],
    example: { n: 4 },
    inputs: [{ name: "x", dtype: "f32", shape: [1, n], buffer: 0 }],
    outputs: [{ name: "y", dtype: "f32", shape: [1, n], buffer: 2 }],
    buffers: [0, 1, 2].map(() => ({ region: "arena", offset: 0, nbytes: [[4, "n"]], pack: null, unit_bytes: 4 })),
    steps: [
      { op: "call", workload: "k", args: [0, 0, 1], node: "first" },
      { op: "call", workload: "k", args: [1, 1, 2], node: "second" },
      { op: "return", workload: "", args: [], node: "" },
    ],
    kernels: { k: { selectors: [[n, 2]], variants: [variant("even"), variant("odd")] } },
    weights_bytes: 0,
  };
}

/** Turns the tiny bundle into one of {@link openPlan}. */
export function makeOpen(manifest, files) {
  const kernel = (workload, file) => {
    const { sha256, tier, ...fields } = header(workload, 4);
    return { ...fields, tiers: { simd128: entry(file, files[file]) } };
  };
  Object.assign(files, { "plan.json": encode(openPlan()), "weights.bin": new Uint8Array(0), "kernels/a.wasm": addKernel, "kernels/b.wasm": doubleKernel });
  Object.assign(manifest, {
    plan: entry("plan.json", files["plan.json"]),
    weights: entry("weights.bin", files["weights.bin"]),
    kernels: [kernel("even", "kernels/a.wasm"), kernel("odd", "kernels/b.wasm")],
  });
}
